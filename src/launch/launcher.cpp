#include "launch/launcher.h"

#include <algorithm>

#include "base/error.h"
#include "launch/master_socket.h"
#include "launch/rank_environment.h"
#include "launch/supervisor.h"

namespace coeus::launch {
namespace {

// Shown: the ranks asked for, else rank 0 of the run. Several at once are told apart by a prefix.
ShowOptions show_options(const LaunchOptions& options, int rank, int local_rank) {
  const auto& wanted = options.shown_local_ranks;
  const bool shown = wanted.empty()
                         ? rank == 0
                         : std::find(wanted.begin(), wanted.end(), local_rank) != wanted.end();
  if (!shown) return {};
  return {.out = options.out,
          .err = options.err,
          .prefix = wanted.size() > 1 ? fmt::format("[rank{}]: ", rank) : ""};
}

LocalRank start_rank(const LaunchOptions& options, const Environment& environment, int local_rank,
                     std::unique_ptr<RankOutput> output, int listen_fd,
                     const sigset_t& signal_mask) {
  const int rank = options.node_rank * options.ranks_per_node + local_rank;
  if (rank != 0) listen_fd = -1;
  // Ranks have no use for the terminal's input, and would fight over it.
  std::optional<files::File> no_input;
  if (options.ranks_per_node > 1) no_input.emplace(files::File::open_to_read("/dev/null"));
  SpawnOptions spawn{
      .program = options.program,
      .environment = rank_environment(options, environment, local_rank, listen_fd),
      .in = no_input ? no_input->descriptor() : -1,
      .out = output ? output->child_out() : options.out,
      .err = output ? output->child_err() : options.err,
      .inherited_fd = listen_fd,
      .signal_mask = signal_mask,
  };
  RankProcess process(spawn);
  if (output) output->close_child_ends();
  return {rank, std::move(process), std::move(output)};
}

sigset_t ranks_signal_mask(const LaunchOptions& options, sigset_t mask) {
  if (options.stop_signals == LaunchOptions::StopSignals::blocked) {
    for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&mask, signal);
  }
  return mask;
}

}  // namespace

int launch(const LaunchOptions& asked, const Environment& environment) {
  COEUS_ASSERT(!asked.program.empty() && asked.ranks_per_node > 0);
  LaunchOptions options = asked;
  MasterSocket master;
  if (options.node_rank == 0) {
    master = bind_master(options);
    options.master_port = master.port;
  }
  const int first_rank = options.node_rank * options.ranks_per_node;
  files::Path attempt;
  if (!options.log_directory.empty())
    attempt = next_attempt(options.log_directory, first_rank, options.ranks_per_node);
  SignalReader signals;
  std::vector<LocalRank> ranks;
  for (int i = 0; i < options.ranks_per_node; ++i) {
    std::unique_ptr<RankOutput> output;
    if (!attempt.empty())
      output = std::make_unique<RankOutput>(attempt / fmt::format("rank-{}.log", first_rank + i),
                                            show_options(options, first_rank + i, i));
    ranks.push_back(start_rank(options, environment, i, std::move(output), master.fd.get(),
                               ranks_signal_mask(options, signals.mask_before())));
  }
  master.fd.reset();  // rank 0 has it now
  return Supervisor(options, std::move(ranks), signals).run();
}

}  // namespace coeus::launch
