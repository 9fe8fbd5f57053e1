#include "comm/threads/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "comm/reduce.h"
#include "core/torch.h"

namespace coeus::comm {
namespace {

constexpr std::int64_t kChunk = 16384;  // elements

std::int64_t rows_before(const std::vector<std::int64_t>& rows, int rank) {
  std::int64_t sum = 0;
  for (int r = 0; r < rank; ++r) sum += rows[static_cast<std::size_t>(r)];
  return sum;
}

void copy_bytes(std::byte* to, const std::byte* from, std::int64_t bytes) {
  if (to != from && bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

}  // namespace

Part make_part(const Tensor& output, const Tensor& input) {
  Part part;
  part.output = output;
  part.input = input;
  if (output.defined()) part.out = static_cast<std::byte*>(output.data_ptr());
  if (input.defined()) part.in = static_cast<const std::byte*>(input.data_ptr());
  return part;
}

Exchange::Exchange(const Operation& operation_in, int rank, int size_in)
    : operation(operation_in),
      first_rank(rank),
      size(size_in),
      arrived(static_cast<std::size_t>(size_in)),
      parts(static_cast<std::size_t>(size_in)) {}

std::int64_t Exchange::chunks_of_part() const {
  return (operation.count + kChunk - 1) / kChunk;
}

std::int64_t Exchange::count_chunks() const {
  switch (operation.op) {
    case Op::all_reduce:
    case Op::broadcast:
      return chunks_of_part();
    case Op::all_gather:
    case Op::reduce_scatter:
      return size * chunks_of_part();
    case Op::all_to_all:
      return size;
    default:
      return 0;
  }
}

std::int64_t Exchange::work_bytes() const {
  const auto width = static_cast<std::int64_t>(c10::elementSize(operation.dtype));
  std::int64_t elements = operation.count * size;
  if (operation.op == Op::all_gather || operation.op == Op::reduce_scatter) elements *= size;
  if (operation.op == Op::all_to_all) {
    elements = 0;
    for (const Part& part : parts) elements += part.input.numel();
  }
  return elements * width;
}

void Exchange::run_chunk(std::int64_t chunk) {
  if (operation.op == Op::all_to_all) return deliver_rows(static_cast<int>(chunk));
  const std::int64_t per_part = chunks_of_part();
  const std::int64_t owner = chunk / per_part, begin = (chunk % per_part) * kChunk;
  const std::int64_t count = std::min(kChunk, operation.count - begin);
  switch (operation.op) {
    case Op::all_reduce:
      return reduce(-1, begin, count);
    case Op::reduce_scatter:
      return reduce(owner, begin, count);
    case Op::broadcast:
      return copy_from(operation.peer, 0, begin, count);
    default:
      return copy_from(static_cast<int>(owner), owner * operation.count, begin, count);
  }
}

// Each chunk reads and writes the same elements of every rank's buffer, and no other chunk touches
// them: in place is safe.
void Exchange::reduce(std::int64_t owner, std::int64_t begin, std::int64_t count) {
  const auto width = static_cast<std::int64_t>(c10::elementSize(operation.dtype));
  const std::int64_t from = (owner < 0 ? 0 : owner * operation.count) + begin;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (int r = 0; r < size; ++r) {
    const Part& part = parts[static_cast<std::size_t>(r)];
    inputs.push_back(part.in + from * width);
    if (owner < 0 || owner == r) outputs.push_back(part.out + begin * width);
  }
  reduce_ranks(operation.dtype, operation.reduce, inputs, outputs, count);
}

void Exchange::copy_from(int source, std::int64_t at, std::int64_t begin, std::int64_t count) {
  const auto width = static_cast<std::int64_t>(c10::elementSize(operation.dtype));
  const std::byte* from = parts[static_cast<std::size_t>(source)].in + begin * width;
  for (const Part& part : parts) copy_bytes(part.out + (at + begin) * width, from, count * width);
}

void Exchange::deliver_rows(int destination) {
  const std::int64_t row =
      operation.count * static_cast<std::int64_t>(c10::elementSize(operation.dtype));
  std::byte* to = parts[static_cast<std::size_t>(destination)].out;
  for (const Part& source : parts) {
    const std::int64_t rows = source.send_rows[static_cast<std::size_t>(destination)];
    copy_bytes(to, source.in + rows_before(source.send_rows, destination) * row, rows * row);
    to += rows * row;
  }
}

std::string Exchange::find_row_mismatch(const std::vector<int>& world_ranks) const {
  if (operation.op != Op::all_to_all) return {};
  for (std::size_t from = 0; from < parts.size(); ++from) {
    for (std::size_t to = 0; to < parts.size(); ++to) {
      const std::int64_t sent = parts[from].send_rows[to];
      const std::int64_t expected = parts[to].receive_rows[from];
      if (sent != expected) {
        return fmt::format("{}: rank {} sends {} rows to rank {}, which expects {}",
                           describe(operation), world_ranks[from], sent, world_ranks[to], expected);
      }
    }
  }
  return {};
}

}  // namespace coeus::comm
