#!/usr/bin/env bash
# CPU training of the debug model against the same model in Python PyTorch: same cores, in turn, three rounds. Needs a Python with torch 2.11.
#   benchmarks/cpu/run.sh [PYTHON] [BIN_FOLDER]
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${1:-python3} bin=${2:-build/release/bin} threads=$(nproc)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
head -c 400000 /dev/urandom | base64 > "$work/text.txt"
for round in 1 2 3; do
  ours=$(OMP_NUM_THREADS=$threads "$bin/coeus" train llama/debug data.sources="$work/text.txt" tokenizer.path=byte data.sequence_length=256 \
    training.steps=14 training.global_batch_size=8 training.micro_batch_size=8 run.directory="$work/run$round" run.cache="$work/cache" metrics.every=1 \
    metrics.console=false checkpoint.every=0 evaluation.every=0 >/dev/null 2>&1
    "$python" -c "
import json, statistics, sys
rows = [json.loads(l) for l in open('$work/run$round/metrics.jsonl')]
print(round(statistics.median(r['tokens_per_second'] for r in rows[2:])))")
  theirs=$("$python" benchmarks/cpu/pytorch_llama.py "$threads" 14)
  echo "round $round: coeus $ours tokens/s, PyTorch $theirs tokens/s, ratio $("$python" -c "print(f'{$ours / $theirs:.2f}')")"
done
