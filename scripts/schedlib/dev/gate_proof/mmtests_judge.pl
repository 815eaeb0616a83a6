# SPDX-License-Identifier: GPL-2.0
# For real_tools.py: perl mmtests_judge.pl MMTESTS < pairs. A line is: lower or higher, values of the base, a bar, values
# of the candidate. Prints 1 if mmtests marks a change for the worse as significant, else 0.
use strict;
use warnings;
my $mmtests;
BEGIN { $mmtests = shift @ARGV; unshift @INC, "$mmtests/bin/lib"; }
use MMTests::Compare;
use MMTests::Summarise;

package Pair;
our @ISA = ("MMTests::Summarise");
sub summaryOps { return ("metric"); }
sub getPreferredValue { return $_[0]->{better}; }
sub getStatCompareFunc { return "MMTests::Stat::pdiff"; }

package main;
while (my $line = <STDIN>) {
	my ($better, @values) = split ' ', $line;
	my (@sides, @modules);
	push @sides, [split ' ', $_] for split /\|/, join ' ', @values;
	for my $side (@sides) {
		my $module = bless { better => ucfirst $better, _FilterNaN => 0 }, "Pair";
		$module->setSummaryMultiops();
		$module->{_ResultData} = { metric => [map { { Values => [$_] } } @{$side}] };
		$module->extractSummary("");
		push @modules, $module;
	}
	my $compare = MMTests::Compare->new();
	$compare->{_ExtractModules} = \@modules;
	$compare->_generateComparisonTable(1);
	my @means = map { $_->{_SummaryData}{metric}[$_->{_ComparisonStatIndex}] } @modules;
	my $significant = $compare->{_ResultsSignificanceTable}{metric}[2];
	my $worse = $better eq "lower" ? $means[1] > $means[0] : $means[1] < $means[0];
	print $significant && $worse ? 1 : 0, "\n";
}
