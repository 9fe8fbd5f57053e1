#include "app/light/exec.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "app/build_info.h"
#include "base/error.h"
#include "base/files.h"

namespace coeus::app {

Arguments heavy_command(const Arguments& words) {
  const files::Path folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const files::Path beside = folder / "coeus-train";
  const files::Path installed = folder.parent_path() / "libexec/coeus/coeus-train";
  const files::Path* found = files::exists(beside)      ? &beside
                             : files::exists(installed) ? &installed
                                                        : nullptr;
  if (!found)
    throw Error(ExitCode::failed, fmt::format("coeus-train is missing (looked for {} and {}): "
                                              "build the target coeus-train",
                                              beside.string(), installed.string()));
  Arguments argv = {found->string(), "--expect-commit", build_info().git_commit};
  argv.insert(argv.end(), words.begin(), words.end());
  return argv;
}

void exec_heavy(const Arguments& words) {
  const Arguments command = heavy_command(words);
  std::vector<char*> argv;
  for (const auto& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  throw Error(ExitCode::failed, fmt::format("cannot run {}: {}", command[0], std::strerror(errno)));
}

}  // namespace coeus::app
