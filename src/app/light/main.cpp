#include "app/light/commands.h"
#include "launch/flags.h"

using namespace coeus::app;

namespace {

const char* const kTrainDetails = R"(
CONFIG is a file or a built-in name (coeus configs ls). Alone, this is `launch --standalone CONFIG`:
one rank a GPU, or one on the CPU. Under srun, mpirun or torchrun it becomes one of their ranks.
  --nproc N              ranks on this machine (with comm.ranks=threads: threads of one process)
  --log-dir DIR          instead of run.directory/logs
  --local-ranks-filter   N,N: ranks to show instead of rank 0
)";
const char* const kEvalDetails = R"(
PATH is a run, one of its steps, or a folder of Hugging Face files.
  --data FILE            text instead of the run's own held-out text
  --sequence-length N    --batch-size N    --max-samples N    --json
)";
const char* const kGenerateDetails = R"(
PATH is a run, one of its steps, or a folder of Hugging Face files.
  --max-tokens N    --temperature T (0: the likeliest token)    --top-k K    --top-p P    --seed N
  --json
)";
const char* const kLaunchDetails = R"(
On several nodes: --nnodes, --node-rank and --master-addr on each, or one task a node under srun.
Flags (also with _, and as PET_* variables):
)";

const char* const kExplainDetails = R"(
  --gpus N     the world; otherwise the smallest that the degrees allow
  --json       --svg FILE   draws the pipeline schedule
)";

}  // namespace

int main(int argc, char** argv) {
  const std::vector<Command> commands = {
      {"train", "CONFIG [key.sub=value …] [--nproc N]", "train a model", train, kTrainDetails},
      {"eval", "PATH [--data FILE] [flags]", "loss, perplexity and bits per byte of a model", eval,
       kEvalDetails},
      {"generate", "PATH --prompt TEXT [flags]", "let a model write", generate, kGenerateDetails},
      {"launch", "[flags] (CONFIG.yaml [key.sub=value …] | PROGRAM [arguments])",
       "start this machine's ranks of a run, as torchrun does", launch,
       kLaunchDetails + coeus::launch::launch_flags_help()},
      {"validate", "CONFIG [key.sub=value …] [--print]", "every fault of a configuration at once",
       validate, "\n  --print   the whole configuration, with the origin of each value\n"},
      {"explain", "CONFIG [key.sub=value …] [flags]", "what each pipeline rank does and holds",
       explain, kExplainDetails},
      {"configs", "[ls | show NAME | fields]", "the built-in configurations, and every field",
       configs},
      {"data", "(prepare CONFIG | dump CONFIG --samples A:B -o FILE.npy) [key.sub=value …]",
       "token shards of a configuration's text", data},
      {"ckpt", "(ls RUN | show PATH | verify PATH) [--json]", "checkpoints, without a GPU", ckpt},
  };
  return run_program("coeus", commands, {argv + 1, argv + argc});
}
