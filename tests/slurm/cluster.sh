# A SLURM cluster on this machine, to be sourced: cluster_start DIR NODES, cluster_stop DIR.
# Controller and nodes are real daemons of this user (root) below DIR; nothing outside is touched.

cluster_missing() {  # why there can be none here, or nothing
  local program
  [ "$(id -u)" = 0 ] || { echo "not root"; return; }
  for program in slurmctld slurmd munged srun sbatch scontrol; do
    command -v $program >/dev/null || { echo "$program is not installed (packages slurm-wlm, munge)"; return; }
  done
}

cluster_configure() {  # DIR NODES PORT
  local dir=$1 last=$(($2 - 1)) port=$3 host i
  host=$(hostname -s)
  mkdir -p "$dir"/{state,spool,log,run}
  for i in $(seq 0 $last); do mkdir -p "$dir/tmp/n$i"; done
  chmod 755 "$dir" "$dir/run"
  head -c 128 /dev/urandom >"$dir/munge.key"
  chmod 400 "$dir/munge.key"
  echo "CgroupPlugin=cgroup/v1" >"$dir/cgroup.conf"
  cat >"$dir/slurm.conf" <<CONF
ClusterName=coeustest
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort=$port
AuthType=auth/munge
AuthInfo=socket=$dir/run/munge.sock
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
TmpFS=$dir/tmp/%n
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmdPidFile=$dir/run/slurmd.%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd.%n.log
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=300
KillWait=5
JobRequeue=1
NodeName=n[0-$last] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + $2))] CPUs=4 RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes=n[0-$last] Default=YES MaxTime=INFINITE State=UP
CONF
}

cluster_start() {
  local dir=$1 nodes=$2 i
  cluster_configure "$dir" "$nodes" "${SLURM_TEST_PORT:-26817}"
  export SLURM_CONF=$dir/slurm.conf
  munged --key-file="$dir/munge.key" --socket="$dir/run/munge.sock" --pid-file="$dir/run/munged.pid" \
    --log-file="$dir/log/munged.log" --seed-file="$dir/run/munged.seed" || return
  slurmctld -f "$SLURM_CONF" -c || return
  for i in $(seq 0 $((nodes - 1))); do slurmd -f "$SLURM_CONF" -N "n$i" || return; done
  for i in $(seq 300); do
    [ "$(sinfo -h -N -t idle -o %N 2>/dev/null | wc -l)" = "$nodes" ] && return
    sleep 0.1
  done
  echo "the nodes did not come up:"
  sinfo
  tail "$dir"/log/*
  return 1
}

cluster_stop() {
  local dir=$1 file i
  for file in "$dir"/run/slurmd.*.pid "$dir"/run/slurmctld.pid "$dir"/run/munged.pid; do
    [ -s "$file" ] && kill "$(cat "$file")" 2>/dev/null
  done
  for i in $(seq 50); do
    ls "$dir"/run/*.pid >/dev/null 2>&1 || break
    sleep 0.1
  done
}
