#!/usr/bin/env bash
# What only GPUs can show of the spine: NCCL conformance, a captured step, losses against the CPU's fp32 run, resume across GPU counts, speed.
#   scripts/gpu/spine.sh TEXT_GLOB [BUILD_FOLDER]
# Builds what it needs (COEUS_TORCH_ROOT says which libtorch), uses one GPU and, where there are two, both. Ends with a table.
set -uo pipefail
cd "$(dirname "$0")/../.."
texts=$1 build=${2:-build/gpu}
gpus=$(nvidia-smi -L | wc -l)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_WAIT_POLICY=passive NCCL_NVLS_ENABLE=0
summary=()

note() { summary+=("$*"); echo "== $*"; }
check() {  # check NAME COMMAND…
  local name=$1 rc
  shift
  "$@"
  rc=$?
  if [ $rc = 0 ]; then note "ok      $name"; else note "FAILED  $name (exit $rc)"; fi
}

cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="-O2 -g1" -DCOEUS_CUDA=ON ${COEUS_CMAKE_FLAGS:-} > "$work/configure.log" 2>&1 || { tail -30 "$work/configure.log"; exit 1; }
cmake --build "$build" --target coeus coeus-train spine_check conformance_nccl test_kernels > "$work/build.log" 2>&1 || { grep -E -A6 "error|FAILED" "$work/build.log" | head -60; exit 1; }
coeus=$build/bin/coeus
find_program() { find "$build" -name "$1" -type f -perm -u+x | head -1; }

check "kernels equal their CPU twins" "$(find_program test_kernels)" --gtest_brief=1
for n in $(seq 1 "$gpus"); do
  check "NCCL conformance suite on $n GPU(s)" "$(find_program conformance_nccl)" "$n"
done
check "initial weights and captured step on 1 GPU" "$(find_program spine_check)"
[ "$gpus" -ge 2 ] && check "captured step on 2 GPUs, FSDP" "$coeus" launch --standalone --nproc-per-node=2 --no-python "$(find_program spine_check)"

# 124m, 50 steps of 4 x 256 tokens; NAME then overrides
train() {
  local name=$1
  shift
  "$coeus" train llama/124m "data.sources=$texts" tokenizer.path=byte data.sequence_length=256 training.global_batch_size=4 \
    training.micro_batch_size=1 training.steps=50 evaluation.every=0 checkpoint.every=25 \
    metrics.every=1 run.cache="$work/cache" run.directory="$work/$name" "$@" > "$work/$name.log" 2>&1 || { tail -5 "$work/$name.log"; return 1; }
}
# largest relative distance of the losses of two runs
distance() {
  python3 - "$work/$1/metrics.jsonl" "$work/$2/metrics.jsonl" <<'P'
import json, sys
a, b = ({r["step"]: r["loss"] for r in map(json.loads, open(f)) if "loss" in r} for f in sys.argv[1:])
assert len(a) == len(b) == 50, (len(a), len(b))
for s in sorted(a):
    if s % 5 == 0:
        print(f"step {s}: {a[s]:.5f} {b[s]:.5f}", file=sys.stderr)
print(f"{max(abs(a[s] - b[s]) / a[s] for s in a):.5f}")
P
}
within() { python3 -c "import sys; sys.exit(0 if float('$1') <= $2 else 1)"; }
same_as_cpu() {
  local d
  d=$(distance cpu "$1") && note "        $1: largest relative distance to the CPU's fp32 losses $d" && within "$d" 0.01
}

check "124m on the CPU in fp32" env CUDA_VISIBLE_DEVICES= bash -c "$(declare -f train); coeus=$coeus texts='$texts' work=$work; train cpu --nproc 1 precision.compute=fp32"
check "124m bf16 on 1 GPU" train gpu1 --nproc 1
check "within 1% of the CPU: 1 GPU" same_as_cpu gpu1
if [ "$gpus" -ge 2 ]; then
  check "124m bf16 on 2 GPUs, FSDP" train fsdp2 --nproc 2
  check "within 1% of the CPU: FSDP" same_as_cpu fsdp2
  check "124m bf16 on 2 GPUs, DDP" train ddp2 --nproc 2 parallel.dp_replicate=2
  check "within 1% of the CPU: DDP" same_as_cpu ddp2
  mkdir -p "$work/resumed/checkpoints" && cp -r "$work"/gpu1/{config.resolved.yaml,run.json} "$work/resumed/" &&
    cp -r "$work/gpu1/checkpoints/step-00000025" "$work/resumed/checkpoints/" && head -25 "$work/gpu1/metrics.jsonl" > "$work/resumed/metrics.jsonl"
  check "2 GPUs resume what 1 GPU wrote" train resumed --nproc 2
  check "within 1% of the CPU: resumed" same_as_cpu resumed
fi

speed() {  # speed NAME CONFIG overrides…
  local name=$1 config=$2
  shift 2
  "$coeus" train "$config" "data.sources=$texts" tokenizer.path=byte training.steps=30 evaluation.every=0 checkpoint.every=0 metrics.every=5 \
    run.cache="$work/cache" run.directory="$work/$name" "$@" > "$work/$name.log" 2>&1 || { tail -5 "$work/$name.log"; return 1; }
  note "        $name: $(grep 'step:' "$work/$name.log" | tail -2 | head -1 | sed 's/.*grad_norm/grad_norm/')"
}
for n in $(seq 1 "$gpus"); do
  check "speed of 124m, $n GPU(s)" speed "124m-$n" llama/124m --nproc "$n" data.sequence_length=1024 training.global_batch_size=$((32 * n)) training.micro_batch_size=32
  check "speed of 3.2-1b, $n GPU(s)" speed "1b-$n" llama/3.2-1b --nproc "$n" data.sequence_length=4096 training.global_batch_size=$((4 * n)) training.micro_batch_size=4
done

echo
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
printf '%s\n' "${summary[@]}"
printf '%s\n' "${summary[@]}" | grep -q FAILED && exit 1
exit 0
