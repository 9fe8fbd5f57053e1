#!/usr/bin/env bash
# Every axis at size 2, beside one rank: losses of 20 steps and tokens/s, as a table.
#   scripts/gpu/parallel.sh TEXT_GLOB [BUILD_FOLDER]      two GPUs, bf16; llama/124m and qwen3_moe/debug
#   COEUS_PARALLEL_CPU=1 scripts/gpu/parallel.sh …        two CPU ranks, fp32, llama/debug: tries the script itself
# Exits 0 when every loss is within 1% of one rank's.
set -uo pipefail
cd "$(dirname "$0")/../.."
texts=$1 build=${2:-build/gpu}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_WAIT_POLICY=passive NCCL_NVLS_ENABLE=0
coeus=$build/bin/coeus
dense=llama/124m sizes="data.sequence_length=1024 training.global_batch_size=16 training.micro_batch_size=2"
if [ -n "${COEUS_PARALLEL_CPU:-}" ]; then
  export CUDA_VISIBLE_DEVICES= OMP_NUM_THREADS=1
  dense=llama/debug sizes="data.sequence_length=128 training.global_batch_size=16 training.micro_batch_size=2"
fi
[ -x "$coeus" ] || { echo "no $coeus: build first (scripts/gpu/spine.sh does)"; exit 2; }

rows=()
run() {  # run NAME CONFIG RANKS overrides…
  local name=$1 config=$2 ranks=$3 log=$work/$1.log
  shift 3
  # shellcheck disable=SC2086
  if ! "$coeus" train "$config" "data.sources=$texts" tokenizer.path=byte training.steps=20 lr_schedule.warmup_steps=5 $sizes \
    evaluation.every=0 checkpoint.every=0 metrics.every=1 run.cache="$work/cache" run.directory="$work/$name" --nproc "$ranks" "$@" > "$log" 2>&1; then
    tail -3 "$log"
    rows+=("$name failed")
    return 1
  fi
}
compare() {  # compare NAME REFERENCE
  local row
  row=$(python3 - "$work/$1/metrics.jsonl" "$work/$2/metrics.jsonl" "$1" <<'P'
import json, sys
a, b = ([r for r in map(json.loads, open(f)) if "loss" in r] for f in sys.argv[1:3])
assert len(a) == len(b) == 20, (len(a), len(b))
off = max(abs(x["loss"] - y["loss"]) / y["loss"] for x, y in zip(a, b))
speed = sorted(x["tokens_per_second"] for x in a[5:])[len(a[5:]) // 2]
step = sorted(x["step_seconds"] for x in a[5:])[len(a[5:]) // 2]
print(f"{sys.argv[3]:<28} {a[-1]['loss']:.5f}  {off:.2e}  {speed:>12,.0f}  {step * 1e3:>9.1f}  {'ok' if off <= 0.01 else 'FAILED'}")
P
  ) || row="$1 failed"
  rows+=("$row")
}
layout() {  # layout NAME overrides…: two ranks against one
  run "$1" "$dense" 2 "${@:2}" && compare "$1" one
}

run one "$dense" 1 && compare one one
layout fsdp
layout ddp parallel.dp_replicate=2
layout tp parallel.tp=2
layout tp_whole parallel.tp=2 parallel.sequence_parallel=false
for style in ring all_gather ulysses; do layout "cp_$style" parallel.cp=2 "parallel.cp_style=$style"; done
for schedule in gpipe 1f1b zero_bubble; do layout "pp_$schedule" parallel.pp=2 "parallel.pp_schedule=$schedule"; done
for schedule in interleaved_1f1b looped_bfs zbv dualpipe_v; do
  layout "pp_$schedule" parallel.pp=2 "parallel.pp_schedule=$schedule" parallel.pp_stages_per_rank=2
done
run moe_one qwen3_moe/debug 1 && compare moe_one moe_one
for ep in 1 2; do run "moe_ep$ep" qwen3_moe/debug 2 "parallel.ep=$ep" && compare "moe_ep$ep" moe_one; done

echo
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null
printf '%-28s %-8s %-9s %12s %10s\n' layout "loss 20" "off by" tokens/s "step (ms)"
printf '%s\n' "${rows[@]}"
! printf '%s\n' "${rows[@]}" | grep -qE 'FAILED|failed'
