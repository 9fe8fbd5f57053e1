#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/operation.h"

namespace coeus::comm {

class ThreadGroup;

// What one rank brings to a collective. Pointers are fixed at issue; the tensors keep the memory
// alive while other ranks use it.
struct Part {
  Tensor output, input;
  std::byte* out = nullptr;
  const std::byte* in = nullptr;
  std::vector<std::int64_t> receive_rows, send_rows;
  int color = -1;    // split
  std::string name;  // split
};
Part make_part(const Tensor& output, const Tensor& input);

// One collective in flight. The last rank to arrive makes it ready; its work is cut into chunks
// that any waiting rank takes, so that the result does not depend on who does it nor when.
struct Exchange {
  enum State : std::uint32_t { gathering, ready, done, failed };

  Exchange(const Operation& operation, int rank, int size);
  void run_chunk(std::int64_t chunk);
  std::int64_t count_chunks() const;
  std::int64_t work_bytes() const;
  // Empty, or what does not fit between two ranks: "rank 1 sends 3 rows to rank 2, which expects
  // 4".
  std::string find_row_mismatch(const std::vector<int>& world_ranks) const;

  Operation operation;
  int first_rank;
  int size;
  int num_arrived = 0;
  std::vector<char> arrived;
  std::vector<Part> parts;
  std::map<int, std::shared_ptr<ThreadGroup>> made;  // split: color -> group

  std::atomic<std::uint32_t> state{gathering};
  std::atomic<std::int64_t> next_chunk{0}, num_done{0};
  std::int64_t num_chunks = 0;

 private:
  void reduce(std::int64_t owner, std::int64_t begin, std::int64_t count);
  void copy_from(int source, std::int64_t at, std::int64_t begin, std::int64_t count);
  void deliver_rows(int destination);
  std::int64_t chunks_of_part() const;
};

}  // namespace coeus::comm
