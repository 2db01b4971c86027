// rondo-train: trains an image classifier data-parallel over the ranks of a Rondo job, and checks that all ranks end
// with the same weights, bit for bit. Rank 0 prints; a rank that fails says so itself.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "train/trainer.h"

namespace {

using namespace rondo::train;

constexpr const char* kExitCodes =
    "Exit codes: 0 success; 1 the check of the result failed (weights differ, loss not finite, accuracy below "
    "--require-accuracy); 2 the data set is missing or damaged; 3 communication failed; 4 options do not fit the data; "
    "above 100 unknown options.";

struct Options {
  TrainOptions train;
  std::string data = "/usr/share/datasets/fashion-mnist";
  std::string algorithm = "ring";
  std::string json;
  double buckets_mib = 1.0;
  double require_accuracy = 0.0;
  size_t synthetic = 0;
  bool no_overlap = false;
};

int exit_code(Fault fault) {
  switch (fault) {
    case Fault::numeric:
      return 1;
    case Fault::dataset:
      return 2;
    case Fault::comm:
      return 3;
    case Fault::invalid:
      return 4;
  }
  return 1;
}

void declare(CLI::App& app, Options& options) {
  TrainOptions& train = options.train;
  app.add_option("--data", options.data, "folder with the four Fashion-MNIST files")->capture_default_str();
  app.add_option("--model", train.model, "mlp or conv")->capture_default_str();
  app.add_option("--epochs", train.epochs)->capture_default_str()->check(CLI::Range(1, 100000));
  app.add_option("--batch", train.batch, "images per rank and step")
      ->capture_default_str()
      ->check(CLI::Range(1, 65536));
  app.add_option("--lr", train.rate, "highest learning rate: rises to it, then falls to 0")->capture_default_str();
  app.add_option("--momentum", train.momentum)->capture_default_str();
  app.add_option("--seed", train.seed, "of the first weights and the order of the images")->capture_default_str();
  app.add_option("--buckets-mib", options.buckets_mib, "gradients per allreduce, MiB")
      ->capture_default_str()
      ->check(CLI::Range(0.0001, 4096.0));
  app.add_flag("--no-overlap", options.no_overlap, "start the allreduces after the backward pass, not during it");
  app.add_option("--algorithm", options.algorithm, "of the allreduce: ring, tree, ...; empty lets Rondo choose")
      ->capture_default_str();
  app.add_option("--json", options.json, "write the results to this file");
  app.add_option("--require-accuracy", options.require_accuracy, "fail when the last test accuracy (0..1) is below")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--synthetic", options.synthetic, "train on this many generated images instead; a test of the program")
      ->check(CLI::Range(size_t{10}, size_t{1} << 20));
  app.footer(kExitCodes);
}

// Loads the data on every rank, and lets all ranks go on or stop together. Of the ranks that could not, the lowest
// returns its own failure and the others an empty text, so that it is printed once.
Result<Dataset> load_together(Group& group, const Options& options) {
  Result<Dataset> data = options.synthetic > 0 ? Result<Dataset>(make_synthetic(options.synthetic, options.train.seed))
                                               : load_fashion_mnist(options.data);
  uint64_t failed = data.ok() ? group.world() : group.rank();
  if (Status agreed = group.minimum(failed); !agreed.ok()) return agreed;
  if (failed == group.world()) return data;
  if (failed == group.rank()) return data.status();
  return Status(Fault::dataset, "");
}

void print_bar(const StepNote& note) {
  constexpr size_t kWidth = 40;
  const size_t filled = (note.step + 1) * kWidth / note.steps;
  fmt::print(stderr, "\repoch {:2} [{:<{}}] {}/{}  loss {:.4f} ", note.epoch + 1, std::string(filled, '#'), kWidth,
             note.step + 1, note.steps, note.loss);
}

// Drawn at most ten times a second, and only for a person.
std::function<void(const StepNote&)> progress_bar() {
  if (isatty(STDERR_FILENO) == 0) return {};
  auto last = std::chrono::steady_clock::now();
  return [last](const StepNote& note) mutable {
    const auto now = std::chrono::steady_clock::now();
    if (note.step + 1 < note.steps && now - last < std::chrono::milliseconds(100)) return;
    last = now;
    print_bar(note);
    if (note.step + 1 == note.steps) fmt::print(stderr, "\r{:100}\r", "");
  };
}

void print_epoch(const EpochReport& epoch) {
  fmt::print("{:5}  {:10.4f}  {:9.4f}  {:13.4f}  {:7.2f}  {:8.0f}  {:5.1f} %\n", epoch.epoch, epoch.loss,
             epoch.test_loss, epoch.accuracy, epoch.seconds, epoch.images_per_second, 100.0 * epoch.comm_share);
  std::fflush(stdout);
}

void print_head(const Group& group, const Dataset& data, const Options& options) {
  fmt::print("data: {}, {} training and {} test images\n", data.description, data.train.count, data.test.count);
  fmt::print("job: {} ranks, batch {} per rank, seed {}, allreduce {}, {:g} MiB buckets {}\n", group.world(),
             options.train.batch, options.train.seed, options.algorithm.empty() ? "chosen by rondo" : options.algorithm,
             options.buckets_mib, options.no_overlap ? "after backward" : "overlapped with backward");
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  if (group.local_world() > static_cast<size_t>(std::max(cores, 1L))) {
    fmt::print("note: {} ranks share {} cores, so time communicating includes waiting for ranks that have none\n",
               group.local_world(), cores);
  }
  fmt::print("epoch  train loss  test loss  test accuracy  seconds  images/s  communicating\n");
  std::fflush(stdout);
}

nlohmann::json to_json(const Group& group, const Dataset& data, const Options& options, const TrainReport& report) {
  nlohmann::json root = {{"data", data.description},
                         {"synthetic", options.synthetic > 0},
                         {"world", group.world()},
                         {"model", options.train.model},
                         {"network", report.network},
                         {"parameters", report.parameters},
                         {"batch_per_rank", options.train.batch},
                         {"learning_rate", options.train.rate},
                         {"momentum", options.train.momentum},
                         {"seed", options.train.seed},
                         {"algorithm", options.algorithm},
                         {"bucket_bytes", options.train.bucket_bytes},
                         {"buckets", report.buckets},
                         {"overlap", !options.no_overlap},
                         {"steps_per_epoch", report.steps},
                         {"weights_hash", fmt::format("{:016x}", report.weights_hash)},
                         {"weights_identical", true}};
  root["epochs"] = nlohmann::json::array();
  for (const EpochReport& epoch : report.epochs) {
    root["epochs"].push_back({{"epoch", epoch.epoch},
                              {"train_loss", epoch.loss},
                              {"test_loss", epoch.test_loss},
                              {"test_accuracy", epoch.accuracy},
                              {"seconds", epoch.seconds},
                              {"test_seconds", epoch.test_seconds},
                              {"images_per_second", epoch.images_per_second},
                              {"communicating_share", epoch.comm_share}});
  }
  return root;
}

// Rank 0's last words; the exit code.
int conclude(const Group& group, const Dataset& data, const Options& options, const TrainReport& report,
             double seconds) {
  const double accuracy = report.epochs.back().accuracy;
  fmt::print("network: {}; {} parameters, {} gradient buckets, {} steps an epoch\n", report.network, report.parameters,
             report.buckets, report.steps);
  fmt::print("weights: identical on {} ranks (hash {:016x})\n", group.world(), report.weights_hash);
  fmt::print("result: test accuracy {:.4f} after {} epochs in {:.1f} s{}\n", accuracy, report.epochs.size(), seconds,
             options.synthetic > 0 ? " on SYNTHETIC data" : "");
  std::fflush(stdout);
  if (!options.json.empty()) {
    std::ofstream file(options.json);
    file << to_json(group, data, options, report).dump(2) << "\n";
    file.close();
    if (!file) {
      fmt::print(stderr, "rondo-train: cannot write {}\n", options.json);
      return 4;
    }
  }
  if (accuracy < options.require_accuracy) {
    fmt::print(stderr, "rondo-train: test accuracy {:.4f} is below the required {:.4f}\n", accuracy,
               options.require_accuracy);
    return 1;
  }
  return 0;
}

int complain(const Status& status) {
  if (!status.text().empty()) fmt::print(stderr, "rondo-train: {}\n", status.text());
  return exit_code(status.fault());
}

int run(const Options& options) {
  compute_on_this_thread_only();
  Result<std::unique_ptr<Group>> group = Group::join({.algorithm = options.algorithm});
  if (!group.ok()) return complain(group.status());
  Group& job = *group.value();
  Result<Dataset> data = load_together(job, options);
  if (!data.ok()) return complain(data.status());
  TrainObserver observer;
  if (job.rank() == 0) {
    print_head(job, data.value(), options);
    observer = {.on_step = progress_bar(), .on_epoch = print_epoch};
  }
  const auto begin = std::chrono::steady_clock::now();
  Result<TrainReport> report = train(job, data.value(), options.train, observer);
  if (!report.ok()) return complain(report.status());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (job.rank() != 0) return report->epochs.back().accuracy < options.require_accuracy ? 1 : 0;
  return conclude(job, data.value(), options, report.value(), took.count());
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Trains a classifier on Fashion-MNIST, data-parallel over the ranks of a Rondo job.", "rondo-train"};
  declare(app, options);
  CLI11_PARSE(app, argc, argv);
  options.train.bucket_bytes = static_cast<size_t>(options.buckets_mib * (1 << 20));
  options.train.overlap = options.no_overlap ? Overlap::after_backward : Overlap::with_backward;
  return run(options);
}
