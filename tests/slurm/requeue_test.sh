#!/usr/bin/env bash
# scripts/slurm/train.sbatch on a real slurmctld with two slurmd: two nodes of one rank each train,
# get the scheduler's signal, save, are requeued, resume and finish. Exits 77 where it cannot run.
#   requeue_test.sh PATH/TO/coeus
set -u
here=$(cd "$(dirname "$0")" && pwd)
source "$here/cluster.sh"
coeus=$(realpath "$1")
script=$here/../../scripts/slurm/train.sbatch

missing=$(cluster_missing)
[ -z "$missing" ] || { echo "skipped: $missing"; exit 77; }
folder=$(mktemp -d)
finish() {
  local status=$?
  [ $status = 0 ] || tail -n 40 "$folder"/*.out "$folder"/log/slurmctld.log
  scancel --state=RUNNING 2>/dev/null
  scancel --state=PENDING 2>/dev/null
  sleep 1
  cluster_stop "$folder"
  rm -rf "$folder"
}
trap finish EXIT
die() { echo "FAILED: $*"; exit 1; }

wait_for() {  # SECONDS WHAT COMMAND...
  local i tries=$(($1 * 5)) what=$2
  shift 2
  for i in $(seq $tries); do
    "$@" && return
    sleep 0.2
  done
  die "timed out waiting for $what"
}
state() { squeue --noheader --jobs="$1" --format=%T 2>/dev/null; }
is_pending() { [ "$(state "$1")" = PENDING ]; }
is_over() { [ -z "$(state "$1")" ] || scontrol show job "$1" | grep -qE 'JobState=(COMPLETED|FAILED|CANCELLED)'; }
exit_code() { scontrol show job "$1" | sed -n 's/.*ExitCode=\([0-9]*\):.*/\1/p'; }
submit() { (cd "$folder" && COEUS=$coeus sbatch --parsable --nodes=2 --time=10 --mem=100 "$script" "$@"); }

# --- the launcher and the batch script, with a program that stands for a trainer
cat >"$folder/trainer" <<'PROGRAM'
#!/usr/bin/env bash
# First start: runs until SIGUSR1, then saves (slower on rank 1) and leaves with 75. Second: finishes.
saved=$1/saved-$RANK
if [ -e "$saved" ]; then
  echo "$RANK of $WORLD_SIZE on node $GROUP_RANK of $GROUP_WORLD_SIZE" >"$1/finished-$RANK"
  exit 0
fi
trap 'sleep $RANK; touch "$saved"; exit 75' USR1
touch "$1/started-$RANK"
for i in $(seq 600); do sleep 0.1; done
exit 1
PROGRAM
chmod +x "$folder/trainer"

saves_requeues_and_finishes() {
  local job
  job=$(submit "$folder/trainer" "$folder") || die "sbatch"
  wait_for 60 "both ranks" test -e "$folder/started-0" -a -e "$folder/started-1"
  scancel --signal=USR1 --batch "$job"
  wait_for 60 "the requeue" is_pending "$job"
  [ -e "$folder/saved-0" ] && [ -e "$folder/saved-1" ] || die "requeued before both ranks had saved"
  sleep 2  # a credential is revoked for the whole second in which the job was requeued
  wait_for 60 "the second start" scontrol update jobid="$job" StartTime=now
  wait_for 60 "the end" is_over "$job"
  [ "$(exit_code "$job")" = 0 ] || die "exit code $(exit_code "$job")"
  [ "$(cat "$folder"/finished-*)" = "0 of 2 on node 0 of 2
1 of 2 on node 1 of 2" ] || die "ranks: $(cat "$folder"/finished-*)"
}

saves_and_stays_away_when_cancelled() {
  local job
  rm -f "$folder"/started-* "$folder"/saved-*
  sed 's/USR1/TERM/g' "$folder/trainer" >"$folder/trainer2"
  chmod +x "$folder/trainer2"
  job=$(submit "$folder/trainer2" "$folder") || die "sbatch"
  wait_for 60 "both ranks" test -e "$folder/started-0" -a -e "$folder/started-1"
  scancel "$job"
  wait_for 60 "the end" is_over "$job"
  sleep 1
  [ -e "$folder/saved-0" ] && [ -e "$folder/saved-1" ] || die "ended before both ranks had saved"
  scontrol show job "$job" | grep -q JobState=CANCELLED || die "not cancelled: $(scontrol show job "$job")"
}

returns_the_failing_code() {
  local job
  job=$(submit bash -c '[ $RANK = 1 ] && exit 3; exit 0') || die "sbatch"
  wait_for 60 "the end" is_over "$job"
  [ "$(exit_code "$job")" = 3 ] || die "exit code $(exit_code "$job") instead of 3"
}

# --- the real trainer
trains_resumes_and_finishes() {
  local job
  head -c 200000 <(yes 'the quick brown fox jumps over the lazy dog ') >"$folder/text.txt"
  cat >"$folder/tiny.yaml" <<YAML
run: {directory: $folder/run}
model: {name: llama, dim: 32, num_layers: 2, num_heads: 2, num_kv_heads: 2, ffn_dim: 64}
tokenizer: {path: byte}
data: {sources: [$folder/text.txt], sequence_length: 64}
training: {steps: 400, global_batch_size: 4, micro_batch_size: 1}
optimizer: {lr: 1e-3}
checkpoint: {every: 100000}
metrics: {every: 1}
comm: {backend: sockets}
YAML
  job=$(submit "$folder/tiny.yaml" --nproc-per-node=1) || die "sbatch"
  wait_for 180 "some steps" grep -qs '"step":5,' "$folder/run/metrics.jsonl"
  scancel --signal=USR1 --batch "$job"
  wait_for 120 "the requeue" is_pending "$job"
  ls "$folder"/run/checkpoints/ | grep -q '^step-[0-9]*$' || die "no checkpoint was saved"
  sleep 2  # a credential is revoked for the whole second in which the job was requeued
  wait_for 60 "the second start" scontrol update jobid="$job" StartTime=now
  wait_for 300 "the end" is_over "$job"
  [ "$(exit_code "$job")" = 0 ] || die "exit code $(exit_code "$job")"
  [ -d "$folder/run/checkpoints/step-00000400" ] || die "no last checkpoint"
  # Every step once: the second start went on where the first had saved.
  [ "$(grep -c '"loss":' "$folder/run/metrics.jsonl")" = 400 ] || die "steps were lost or done twice"
}

cluster_start "$folder" 2 || die "no cluster"
tests="saves_requeues_and_finishes returns_the_failing_code saves_and_stays_away_when_cancelled"
if "$(dirname "$coeus")/coeus-train" --help 2>/dev/null | grep -q '^  train '; then
  tests="$tests trains_resumes_and_finishes"
fi
for name in $tests; do
  $name
  echo "ok: $name"
done
