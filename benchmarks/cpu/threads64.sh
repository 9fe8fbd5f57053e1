#!/usr/bin/env bash
# 64 ranks as threads: the debug model, 64 sequences of 64 tokens a step, 10 steps.   benchmarks/cpu/threads64.sh [BIN_FOLDER]
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=${1:-build/release/bin}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
head -c 400000 /dev/urandom | base64 > "$work/text.txt"
time "$bin/coeus" train llama/debug data.sources="$work/text.txt" tokenizer.path=byte data.sequence_length=64 data.threads=1 training.steps=10 \
  training.global_batch_size=64 training.micro_batch_size=1 run.directory="$work/run" run.cache="$work/cache" metrics.every=1 evaluation.every=0 \
  checkpoint.every=0 comm.ranks=threads --nproc 64
