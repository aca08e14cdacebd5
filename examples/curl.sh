#!/usr/bin/env bash
# The API by hand: submits examples/simulated.yaml and follows it to its answer. The service must be running.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
url=${ROLLOUT_LAB_URL:-http://127.0.0.1:8321}

# What would it do, and what would it cost? Nothing is queued.
curl -fsS "$url/v1/experiments?dry_run=true" -H 'Content-Type: application/yaml' --data-binary @simulated.yaml

# Queue it. The key makes it safe to send this again: the same experiment comes back.
key="curl-$(date +%s%N)"
location=$(curl -fsS "$url/v1/experiments" -H 'Content-Type: application/yaml' -H "Idempotency-Key: $key" \
  --data-binary @simulated.yaml -o /dev/null -w '%header{location}')

# Where is it?
curl -fsS "$url$location"

# Follow it, until it is at its end.
curl -fsSN "$url$location/events" -H 'Accept: text/event-stream'

# The answer: the sentence is in .summary.
curl -fsS "$url$location/results"

# One row per sample, for a spreadsheet; parquet and ndjson too.
curl -fsS "$url$location/requests?format=csv&arm=async&trial=1"

# A trace of the engines that https://ui.perfetto.dev opens.
curl -fsS "$url$location/timeline?format=perfetto&trial=1" -o "${TMPDIR:-/tmp}/rollout-lab-trace.json"

# Everything of this suite that went well, newest first.
curl -fsS "$url/v1/experiments?label=suite:demo&status=succeeded&limit=10"
