#include "comm/config.h"

#include "coeus/config/fields.h"

namespace coeus {

using namespace config;

std::span<const EnumName<CommBackend>> enum_names(CommBackend) {
  using B = CommBackend;
  static constexpr EnumName<B> kNames[] = {{B::automatic, "auto"},
                                           {B::nccl, "nccl"},
                                           {B::mpi, "mpi"},
                                           {B::sockets, "sockets"},
                                           {B::fake, "fake"}};
  return kNames;
}

std::span<const EnumName<RankKind>> enum_names(RankKind) {
  static constexpr EnumName<RankKind> kNames[] = {{RankKind::processes, "processes"},
                                                  {RankKind::threads, "threads"}};
  return kNames;
}

void CommConfig::describe(Fields& f) {
  f("backend", backend, "auto: nccl where each rank has a GPU, mpi under mpirun, else sockets")(
      "ranks", ranks, "ranks are processes, or threads of one process");
}

}  // namespace coeus
