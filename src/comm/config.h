#pragma once
#include <string>

namespace coeus::config {
class Fields;
}

namespace coeus {

enum class CommBackend { automatic, nccl, mpi, sockets, fake };
enum class RankKind { processes, threads };
struct CommConfig {
  CommBackend backend = CommBackend::automatic;
  RankKind ranks = RankKind::processes;
  void describe(config::Fields& f);
};

}  // namespace coeus
