# SPDX-License-Identifier: GPL-2.0
# For real_tools.py: ruby lkp_judge.rb LKP_TESTS < pairs. A line is: lower or higher, values of the base, a bar, values
# of the candidate. Prints 1 if lkp reports a change for the worse, else 0.
ENV['LKP_SRC'] = LKP_SRC = ARGV.shift
require "#{LKP_SRC}/lib/stats"

STAT = 'schedline.metric'.freeze
$stdin.each_line do |line|
  better, *values = line.split
  bar = values.index('|')
  base, candidate = [values[0...bar], values[(bar + 1)..]].map { |side| side.map(&:to_f) }
  found = StatCompare.new(STAT, { STAT => candidate }, { STAT => base }, false, { 'more' => true }).process
  grown = found && found['mean_a'] > found['mean_b']
  puts found && grown == (better == 'lower') ? 1 : 0
end
