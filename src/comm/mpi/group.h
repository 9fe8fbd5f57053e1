#pragma once
#include <mpi.h>

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/connect.h"
#include "comm/operation.h"

namespace coeus::comm {

// Throws CommError with MPI's text. `what` names the call.
void check_mpi(int code, const char* what);

// MPI of this process. Finalises it at the end if it was initialised here and nothing failed: after
// a failure that would wait for ranks that will never come.
class MpiLibrary {
 public:
  MpiLibrary();
  ~MpiLibrary();
  MpiLibrary(const MpiLibrary&) = delete;
  MpiLibrary& operator=(const MpiLibrary&) = delete;
  void mark_failed() noexcept { failed_ = true; }
  bool failed() const { return failed_; }
  MPI_Op reduction(ReduceOp op) const;

 private:
  bool owner_ = false;
  bool failed_ = false;
  MPI_Op max_ = MPI_OP_NULL, min_ = MPI_OP_NULL;
};

// An MPI communicator for data and one beside it on which ranks tell each other of aborts and, at a
// deadline, who is there.
class MpiGroup {
 public:
  // Takes `data` over.
  MpiGroup(std::shared_ptr<MpiLibrary> library, MPI_Comm data, std::string name,
           std::vector<int> world_ranks, const Timeouts& timeouts);
  ~MpiGroup();
  MpiGroup(const MpiGroup&) = delete;
  MpiGroup& operator=(const MpiGroup&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(world_ranks_.size()); }
  const std::string& name() const { return name_; }
  const std::vector<int>& world_ranks() const { return world_ranks_; }
  MPI_Comm data() const { return data_; }
  MpiLibrary& library() { return *library_; }
  const std::shared_ptr<MpiLibrary>& shared_library() const { return library_; }
  const Timeouts& timeouts() const { return timeouts_; }

  std::uint32_t next_sequence() { return ++sequence_; }
  // Polls, since a blocking MPI call has neither deadline nor end. Throws CommError.
  void wait(std::vector<MPI_Request>& requests, const Operation& operation, std::uint32_t sequence);
  void check_usable() const;
  void abort(const std::string& reason) noexcept;

 private:
  void tell(int to, int tag, const std::string& text);
  void listen(const Operation& operation, std::uint32_t sequence);
  [[noreturn]] void time_out(const Operation& operation, std::uint32_t sequence);
  void ask(const Operation& operation, std::uint32_t sequence);

  std::shared_ptr<MpiLibrary> library_;
  MPI_Comm data_, control_ = MPI_COMM_NULL;
  std::string name_;
  std::vector<int> world_ranks_;
  Timeouts timeouts_;
  int rank_ = 0;
  std::uint32_t sequence_ = 0;
  std::optional<std::string> failure_;
  std::vector<char> present_;
  struct Sent {
    std::string text;
    MPI_Request request;
  };
  std::list<Sent> sent_;  // buffers of messages under way
};

}  // namespace coeus::comm
