#!/usr/bin/env bash
# rondo-perf's checked allreduce from 4 bytes to 64 MiB for several worlds over shm, shm with so few slots that everybody
# waits for everybody's, tcp and mixed hosts: 0 wrong, no hang.
# usage: perf_matrix.sh BIN_FOLDER
set -uo pipefail
bin=$1
failed=0
for ranks in 1 2 3 4 5 8; do
  for links in shm starved tcp mixed; do
    settings=(RONDO_TRANSPORTS="$links")
    [[ $links == starved ]] && settings=(RONDO_TRANSPORTS=shm RONDO_SHM_BYTES=768K)
    [[ $links == mixed ]] && settings=(RONDO_FAKE_HOSTS=2)
    output=$(env "${settings[@]}" timeout 200 "$bin/rondo-run" -n "$ranks" --no-prefix "$bin/rondo-perf" allreduce \
      -b 4 -e 64M -f 4 --verify-only -q 2>&1)
    status=$?
    if [[ $status -ne 0 || $output != *"# wrong: 0"* ]]; then
      printf 'FAILED: %s ranks over %s (exit %s)\n%s\n' "$ranks" "$links" "$status" "$output"
      failed=1
    else
      printf 'ok: %s ranks over %s\n' "$ranks" "$links"
    fi
  done
done
exit $failed
