#pragma once
#include <string>

namespace coeus::app {

// What these binaries were built from and with; a library that was left out says "none".
struct BuildInfo {
  std::string version, git_commit;  // commit "unknown" outside a git checkout
  bool is_modified = false;         // the work tree differed from the commit
  std::string compiler, build_type, libtorch, cuda, nccl, mpi;
};
BuildInfo build_info();

// The lines of --version.
std::string describe_build(const std::string& program);

}  // namespace coeus::app
