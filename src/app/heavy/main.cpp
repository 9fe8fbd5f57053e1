#include "app/build_info.h"
#include "app/heavy/commands.h"
#include "base/error.h"

using namespace coeus;
using namespace coeus::app;

namespace {

// `--expect-commit C` before the command: coeus and coeus-train must come from one commit, or the
// flags and files they agree on may differ.
void check_commit(const std::string& expected) {
  const std::string own = build_info().git_commit;
  if (own != expected)
    throw UsageError(fmt::format(
        "coeus was built from commit {} and coeus-train from {}: build both", expected, own));
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments(argv + 1, argv + argc);
  const std::vector<Command> commands = {
      {"train", "CONFIG [key.sub=value …] [--nproc N]", "one rank of a training run", train},
      {"eval", "PATH [--data FILE]", "loss of a model over text", eval},
      {"generate", "PATH --prompt TEXT", "let a model write", generate},
  };
  if (arguments.size() >= 2 && arguments[0] == "--expect-commit") {
    const std::string expected = arguments[1];
    arguments.erase(arguments.begin(), arguments.begin() + 2);
    try {
      check_commit(expected);
    } catch (const Error& error) {
      fmt::print(stderr, "coeus: error: {}\n", error.what());
      return static_cast<int>(error.code());
    }
  }
  return run_program("coeus-train", commands, arguments);
}
