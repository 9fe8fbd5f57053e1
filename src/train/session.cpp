#include "train/session.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "core/torch.h"
#include "metrics/record.h"
#include "optim/schedule.h"
#include "parallel/context/context.h"

namespace coeus::train {
namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm tm{};
  gmtime_r(&now, &tm);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
  return text;
}

at::ScalarType compute_type(FloatType wanted, at::Device device) {
  if (wanted == FloatType::automatic) return device.is_cuda() ? at::kBFloat16 : at::kFloat;
  return wanted == FloatType::bf16 ? at::kBFloat16 : at::kFloat;
}

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

data::DatasetOptions dataset_options(const LoadedJob& job, const World& world) {
  const JobConfig& c = job.config;
  return {.data = c.data,
          .evaluation = c.evaluation,
          .cache = c.run.cache,
          .seed = c.run.seed,
          .num_nodes = world.num_nodes,
          .config_name = job.name};
}

}  // namespace

Session::Session(SessionOptions options)
    : options_(std::move(options)),
      compute_(compute_type(config().precision.compute, options_.device)) {
  if (config().run.deterministic != Deterministic::off)
    at::globalContext().setDeterministicAlgorithms(true, false);
  const Mesh mesh(options_.world.size, config().parallel.mesh_sizes());
  groups_ = std::make_unique<comm::Groups>(mesh, *options_.connection.device);
  open_run_directory();
  open_data();
  build_model();
  plan_steps();
  restore();
  for (const auto& warning : options_.job.warnings) log().warn("{}", warning);
  print_banner();
  start_feeds();
  add_observers();
}

Session::~Session() = default;

void Session::open_run_directory() {
  directory_ = std::make_unique<RunDirectory>(config().run.directory);
  std::string fault;
  if (is_first_rank()) {
    try {
      files::check_writable_directory(directory_->path());
    } catch (const Error& e) {
      fault = e.what();
    }
  }
  fault = comm::broadcast_bytes(host(), fault);
  if (!fault.empty()) throw ConfigError("run.directory: " + fault);
}

void Session::open_data() {
  tokenizer_ = data::load_tokenizer(config().tokenizer.path);
  check_vocabulary(options_.job.config, tokenizer_->vocab_size());
  auto data_options = dataset_options(options_.job, options_.world);
  // One rank of a node prepares, the others find the cache whole.
  if (options_.world.local_rank == 0)
    train_data_ = data::open_dataset(data_options, tokenizer_, data::Split::train);
  host().barrier({.label = "data preparation"});
  if (!train_data_) train_data_ = data::open_dataset(data_options, tokenizer_, data::Split::train);
  if (config().evaluation.every > 0 &&
      (config().evaluation.holdout > 0 || !config().evaluation.sources.empty())) {
    data_options.order = data::DatasetOptions::Order::sequential;
    if (options_.world.local_rank == 0)
      validation_data_ = data::open_dataset(data_options, tokenizer_, data::Split::holdout);
    host().barrier({.label = "validation data preparation"});
    if (!validation_data_)
      validation_data_ = data::open_dataset(data_options, tokenizer_, data::Split::holdout);
  }
}

void Session::build_model() {
  const JobConfig& c = config();
  spec_ = c.model->spec();
  const parallel::Pipeline::Options schedule{.schedule = c.parallel.pp_schedule,
                                             .stages_per_rank = c.parallel.pp_stages_per_rank};
  const std::int64_t num_micro_batches =
      c.training.global_batch_size / (mesh().degree("batch") * c.training.micro_batch_size);
  const parallel::ApplyOptions apply{
      .plan = c.model->plan(),
      .parallel = c.parallel,
      .execution = c.execution,
      .stages = parallel::split_for(schedule, mesh().degree("pp"), num_micro_batches, spec_,
                                    c.model->plan(), c.data.sequence_length),
      .device = options_.device,
      .compute = compute_};
  model_ = std::make_unique<parallel::ParallelModel>(options_.registry->build_model(*c.model),
                                                     apply, *groups_);
  optimizer_ = std::make_unique<optim::AdamW>(model_->shards(), c.optimizer, model_->segments());
  pipeline_ = std::make_unique<parallel::Pipeline>(*model_, schedule, *groups_);
  step_ = std::make_unique<TrainStep>(*model_, *pipeline_, *optimizer_, *groups_, options_.device,
                                      c.training.max_grad_norm);
  ranges_ = std::make_unique<TensorRanges>(*model_, *optimizer_, *c.model, compute_, *groups_);
}

void Session::plan_steps() {
  const auto& t = config().training;
  const std::int64_t per_step = t.global_batch_size * train_data_->sequence_length();
  if (t.steps) last_step_ = *t.steps;
  if (t.tokens) last_step_ = (*t.tokens + per_step - 1) / per_step;
  end_sample_ = std::numeric_limits<std::int64_t>::max();
  if (t.epochs) {
    end_sample_ =
        static_cast<std::int64_t>(std::ceil(*t.epochs * static_cast<double>(train_data_->size())));
    last_step_ = (end_sample_ + t.global_batch_size - 1) / t.global_batch_size;
  }
  const std::string warning = optim::schedule_warning(config().lr_schedule, last_step_);
  if (!warning.empty()) log().warn("{}", warning);
}

void Session::restore() {
  const JobConfig& c = config();
  const auto start = directory_->find_start(c.run.resume, log());
  const auto peers = peers_over(host());
  state_ = {.seed = c.run.seed, .layout = mesh().describe()};
  if (start) {
    directory_->check_resume(options_.job, tokenizer_->hash(), log());
    const auto reader = checkpoint::Reader::open(start->path);
    const auto json = reader.train_state();
    if (!json) throw CheckpointError(start->path.string() + ": has no train_state.json");
    state_ = TrainState::from_json(*json, start->path.string());
    ranges_->read(reader, TensorRanges::What::weights_and_moments, peers, c.checkpoint.verify);
    step_->set_optimizer_count(state_.optimizer_count);
    saved_step_ = state_.step;
    log().info("resumed from {} (step {}, written by {})", start->path.string(), state_.step,
               state_.layout);
    if (is_first_rank())
      metrics::append_event(directory_->path(), "resumed",
                            {{"step", state_.step},
                             {"checkpoint", start->path.string()},
                             {"layout", mesh().describe()}});
    state_.layout = mesh().describe();
  } else if (c.checkpoint.initialize_from) {
    const auto reader = checkpoint::Reader::open(*c.checkpoint.initialize_from);
    const auto what = c.checkpoint.initialize_optimizer ? TensorRanges::What::weights_and_moments
                                                        : TensorRanges::What::weights;
    ranges_->read(reader, what, peers, c.checkpoint.verify);
    log().info("weights initialised from {}", *c.checkpoint.initialize_from);
  } else {
    model_->initialise(c.run.seed);
    log().info("weights initialised from seed {}", c.run.seed);
  }
  if (!is_first_rank()) return;
  Json stamps = options_.build;
  stamps["started"] = utc_now();
  stamps["layout"] = mesh().describe();
  stamps["world_size"] = options_.world.size;
  stamps["host"] = host_name();
  stamps["device"] = options_.device.str();
  stamps["seed"] = c.run.seed;
  stamps["first_step"] = first_step();
  stamps["tokenizer_hash"] = tokenizer_->hash();
  stamps["data_hash"] = data::data_hash(dataset_options(options_.job, options_.world), *tokenizer_);
  directory_->write_start(options_.job, stamps);
}

std::vector<std::int64_t> Session::token_index() const {
  if (mesh().degree("cp") == 1) return {};
  return parallel::context_token_index(config().data.sequence_length, mesh().degree("cp"),
                                       mesh().coordinate("cp", options_.world.rank));
}

FeedOptions Session::feed_options(std::int64_t first_sample, std::int64_t end_sample) const {
  const JobConfig& c = config();
  return {.global_batch_size = c.training.global_batch_size,
          .micro_batch_size = c.training.micro_batch_size,
          .batch_coordinate = mesh().coordinate("batch", options_.world.rank),
          .batch_degree = mesh().degree("batch"),
          .threads = c.data.threads,
          .first_sample = first_sample,
          .end_sample = end_sample,
          .token_index = token_index(),
          .device = options_.device};
}

void Session::start_feeds() {
  feed_ = std::make_unique<Feed>(*train_data_, feed_options(state_.next_sample, end_sample_));
  if (validation_data_)
    validation_feed_ =
        std::make_unique<Feed>(*validation_data_, feed_options(0, validation_data_->size()));
}

void Session::add_observers() {
  observers_ = std::make_unique<Observers>(host());
  observers_->add(make_non_finite_guard(*this));
  observers_->add(make_metrics_observer(*this));
  observers_->add(make_evaluation_observer(*this));
  observers_->add(make_checkpoint_observer(*this));
  observers_->add(make_signal_observer(*this));
}

double Session::learning_rate(Step step) const {
  return config().optimizer.lr * optim::lr_multiplier(config().lr_schedule, step - 1, last_step_);
}

StepResult Session::train_step(StepBatch batch) {
  const auto begin = std::chrono::steady_clock::now();
  StepResult result = step_->run(batch.micro_batches, learning_rate(state_.step + 1));
  result.data_wait_seconds = batch.data_wait_seconds;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() +
                   batch.data_wait_seconds;
  state_.step += 1;
  state_.next_sample = feed_->next_sample();
  state_.tokens += config().training.global_batch_size * train_data_->sequence_length();
  if (!result.applied) state_.skipped_steps.push_back(state_.step);
  return result;
}

std::optional<std::pair<double, std::int64_t>> Session::evaluate() {
  if (!validation_feed_) return std::nullopt;
  const auto batches =
      std::min(config().evaluation.steps,
               (validation_data_->size() + config().training.global_batch_size - 1) /
                   config().training.global_batch_size);
  validation_feed_->restart(0);
  double sum = 0;
  std::int64_t tokens = 0;
  for (std::int64_t i = 0; i < batches; ++i) {
    StepBatch batch = validation_feed_->next();
    const auto e = step_->evaluate(batch.micro_batches);
    sum += e.loss_sum;
    tokens += e.tokens;
  }
  return std::pair{sum / static_cast<double>(std::max<std::int64_t>(tokens, 1)), tokens};
}

void Session::save(Step step) {
  if (saved_step_ == step) return;
  state_.optimizer_count = step_->optimizer_count();
  std::vector<Tensor> kept;
  checkpoint::SaveRequest request{.directory = directory_->checkpoints(),
                                  .step = step,
                                  .sets = ranges_->sets(),
                                  .runs = ranges_->writes(kept)};
  if (is_first_rank()) {
    request.texts = huggingface_texts(*config().model, *tokenizer_, compute_);
    Json train_state = state_.to_json();
    train_state["lr_schedule"] = {
        {"step", step}, {"steps", last_step_}, {"lr", learning_rate(step)}};
    request.texts.emplace_back("train_state.json", train_state.dump(2) + "\n");
    request.stamps = options_.build;
  }
  const auto path = checkpoint::save(request, peers_over(host()));
  saved_step_ = step;
  if (is_first_rank()) {
    log().info("saved {}", path.string());
    metrics::append_event(directory_->path(), "saved",
                          {{"step", step}, {"checkpoint", path.string()}});
    checkpoint::retain(directory_->checkpoints(), config().checkpoint);
  }
}

void Session::abort(const std::string& reason) noexcept {
  if (groups_) groups_->abort_all(reason);
  options_.connection.device->abort(reason);
  options_.connection.host->abort(reason);
}

}  // namespace coeus::train
