# SPDX-License-Identifier: GPL-2.0
# Results of other tools as CSV for `schedline gate --columns metric,value,unit,direction`: lines to copy, one for each tool.
# A tool that failed gives an empty file, which is an error. That of Google Benchmark needs --benchmark_repetitions, that of
# perf bench --format=simple.

jq -r '.jobs[] | if .error == 0 then . else error("failed") end | .jobname as $job | ("read", "write", "trim") as $way | .[$way] | select(.total_ios > 0) | ["\($job).\($way).iops", .iops, "1/s", "higher"] | @csv' fio.json > fio.csv
jq -r '.results[] | if all(.exit_codes[]; . == 0) then . else error("failed") end | [.command, .median, "s", "lower"] | @csv' hyperfine.json > hyperfine.csv
jq -r '.benchmarks[] | select(.aggregate_name == "median") | ["\(.run_name).real_time", .real_time, .time_unit, "lower"] | @csv' google-benchmark.json > google-benchmark.csv
awk '/total time: |time elapsed: / { s = $NF + 0 } /number of events:/ { n = $NF } /95.*percentile:/ { p = $NF + 0 } END { if (!n || !s || !p) exit 1; printf "events_per_s,%.9g,1/s,higher\nlatency.p95,%s,ms,lower\n", n / s, p }' sysbench.txt > sysbench.csv
sed 's/.*/time_s,&,s,lower/' perf-bench.txt > perf-bench.csv
jq -r 'if .passed and (.skipped | not) then .stats.ext_metrics else error("failed") end | ["iteration_rate", .iteration_rate, "1/s", "higher"], ["p99_wake_latency_us", .worst_p99_wake_latency_us, "us", "lower"] | @csv' ktstr.json > ktstr.csv
