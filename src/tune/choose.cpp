#include "tune/choose.h"

#include <algorithm>

#include <fmt/core.h>

namespace rondo {
namespace {

// Measured by bench/compare's worker on 2 cores, 2 to 8 ranks: up to here one exchange of whole inputs is at least as
// quick as sums through a workspace (2 ranks: equal at 4 KiB, 3.2 us beside 1.5 at 16 KiB; 8 ranks: 14 us beside 12),
// and memory from rondo_alloc, which only those leave where it is, gains from here on.
constexpr size_t kOneShotAtMost = 4096;
// Up to here, with so many ranks on a processor, claimed sums are ahead of owner sums, for which every rank must run
// twice (2 on a processor: 11 us beside 14 at 16 KiB, 34 beside 26 at 64 KiB; 4 on a processor: 22 beside 31, 52 beside
// 64, 280 beside 370 at 512 KiB, equal from 1 MiB on).
constexpr size_t claims_at_most(uint32_t ranks_a_cpu) {
  return ranks_a_cpu < 2 ? 0 : size_t{2048} << 2 * std::min(ranks_a_cpu, 4u);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::string names_of(Collective collective) {
  std::string names;
  for (const Algorithm& algorithm : algorithms())
    if (algorithm.collective == collective) names += (names.empty() ? "" : ", ") + std::string(algorithm.name);
  return names;
}

bool known(std::string_view name) {
  return std::any_of(algorithms().begin(), algorithms().end(), [&](const Algorithm& a) { return a.name == name; });
}

// In order of preference for the call; the first that exists and is allowed runs.
std::vector<std::string_view> preferred(Collective collective, size_t bytes, const CommFacts& facts) {
  const bool shared = facts.one_memory;
  switch (collective) {
    case Collective::allreduce:
      if (shared && bytes <= (facts.workspace ? kOneShotAtMost : kOneShotBytes)) return {"oneshot", "direct"};
      if (shared && bytes <= claims_at_most(facts.ranks_a_cpu)) return {"claims", "owners", "direct", "ring"};
      if (shared) return {"owners", "claims", "direct", "ring"};
      if (bytes <= (32u << 10)) return {"recursive_doubling", "direct"};
      if (bytes <= (512u << 10)) return {"halving_doubling", "direct"};
      return {"ring", "direct"};
    case Collective::reduce:
      if (shared && bytes <= (64u << 10)) return {"direct", "binomial"};
      return bytes <= (64u << 10) ? std::vector<std::string_view>{"binomial"} : std::vector<std::string_view>{"ring"};
    case Collective::broadcast:
      if (shared) return {"workspace", "flat", "binomial"};
      return bytes <= (64u << 10) || facts.world <= 2 ? std::vector<std::string_view>{"binomial"}
                                                      : std::vector<std::string_view>{"chain", "binomial"};
    case Collective::allgather:
      if (shared) return {"workspace", "direct", "ring"};
      return bytes <= (8u << 10) ? std::vector<std::string_view>{"bruck", "ring"}
                                 : std::vector<std::string_view>{"ring"};
    case Collective::reduce_scatter:
      if (shared) return {"workspace", "direct", "ring"};
      return bytes <= (16u << 10) ? std::vector<std::string_view>{"direct", "ring"}
                                  : std::vector<std::string_view>{"ring", "direct"};
    case Collective::alltoall:
      return {"workspace", "pairwise"};
    case Collective::gather:
    case Collective::scatter:
      return shared ? std::vector<std::string_view>{"linear"} : std::vector<std::string_view>{"binomial", "linear"};
    case Collective::barrier:
      return {"workspace", shared ? "flat" : "dissemination", "dissemination"};
  }
  return {};
}

// Why an algorithm cannot run the call, or "" when it can.
std::string obstacle(const Algorithm& algorithm, size_t bytes, const CommFacts& facts, const AlgorithmSpec& spec) {
  if (!spec.allows(algorithm)) return "not allowed";
  if (facts.determinism >= 2 && algorithm.order == SumOrder::own) return "its summation order is not the canonical one";
  switch (algorithm.means) {
    case Means::steps:
      return "";
    case Means::cells:
      if (!facts.cells) return "needs memory that all ranks share";
      if (bytes > kOneShotBytes) return fmt::format("takes at most {} bytes", kOneShotBytes);
      return "";
    case Means::workspace:
    case Means::claims:
      return facts.workspace ? "" : "needs memory that all ranks share and write";
  }
  return "";
}

Choice with_plan(const Algorithm& algorithm, const CommFacts& facts, std::string_view why) {
  Choice choice{.algorithm = &algorithm, .why = why};
  if (algorithm.name == "tree") choice.lanes = 2;
  choice.piece_bytes = facts.piece_bytes != 0 ? facts.piece_bytes : facts.one_memory ? (64u << 10) : (256u << 10);
  choice.piece_bytes = std::max<size_t>(std::min(choice.piece_bytes, facts.message_bytes), 8);
  choice.window = facts.window != 0 ? facts.window : facts.one_memory && facts.world > 2 ? 4 : 8;
  return choice;
}

}  // namespace

Result<AlgorithmSpec> AlgorithmSpec::parse(std::string_view text) {
  AlgorithmSpec spec;
  spec.text_ = text;
  if (text.empty()) return spec;
  for (std::string_view part : split(text, ';')) {
    if (part.empty()) continue;
    Clause clause;
    const size_t colon = part.find(':');
    if (colon == std::string_view::npos) {
      clause.every = true;
    } else {
      const auto collective = collective_named(part.substr(0, colon));
      if (!collective)
        return fail(Code::invalid,
                    "algorithm '{}': '{}' is no collective; expected ring, or allreduce:tree;broadcast:^chain", text,
                    part.substr(0, colon));
      clause.collective = *collective;
      part.remove_prefix(colon + 1);
    }
    if (part.starts_with('^')) {
      clause.exclude = true;
      part.remove_prefix(1);
    }
    for (const std::string_view name : split(part, ',')) {
      const bool fits = clause.every ? known(name) : find_algorithm(clause.collective, name) != nullptr;
      if (!fits)
        return fail(Code::invalid, "algorithm '{}': '{}' is unknown; {} has: {}", text, name,
                    rondo::name(clause.every ? Collective::allreduce : clause.collective),
                    names_of(clause.every ? Collective::allreduce : clause.collective));
      clause.names.emplace_back(name);
    }
    spec.clauses_.push_back(std::move(clause));
  }
  return spec;
}

// A clause without a collective speaks of those collectives that have an algorithm it names.
const AlgorithmSpec::Clause* AlgorithmSpec::clause(Collective collective) const {
  for (const Clause& clause : clauses_)
    if (!clause.every && clause.collective == collective) return &clause;
  for (const Clause& clause : clauses_) {
    if (!clause.every) continue;
    for (const std::string& name : clause.names)
      if (find_algorithm(collective, name) != nullptr) return &clause;
  }
  return nullptr;
}

bool AlgorithmSpec::restricts(Collective collective) const { return clause(collective) != nullptr; }

bool AlgorithmSpec::allows(const Algorithm& algorithm) const {
  const Clause* said = clause(algorithm.collective);
  if (said == nullptr) return true;
  const bool named = std::find(said->names.begin(), said->names.end(), algorithm.name) != said->names.end();
  return named != said->exclude;
}

uint32_t Choice::hash() const {
  uint64_t hash = 0xcbf29ce484222325u;
  auto add = [&](uint64_t value) { hash = (hash ^ value) * 0x100000001b3u; };
  for (const char c : algorithm->name) add(static_cast<uint8_t>(c));
  add(lanes);
  add(piece_bytes);
  return static_cast<uint32_t>(hash ^ hash >> 32);
}

std::vector<Candidate> candidates(Collective collective, size_t bytes, const CommFacts& facts,
                                  const AlgorithmSpec& spec) {
  std::vector<Candidate> all;
  for (const Algorithm& algorithm : algorithms())
    if (algorithm.collective == collective) all.push_back({&algorithm, obstacle(algorithm, bytes, facts, spec)});
  return all;
}

bool same_sums(const Algorithm& a, const Algorithm& b) {
  return a.order == b.order && (a.order != SumOrder::own || &a == &b);
}

Result<Choice> choose(Collective collective, size_t bytes, const CommFacts& facts, const AlgorithmSpec& spec) {
  for (const std::string_view name : preferred(collective, bytes, facts)) {
    const Algorithm* algorithm = find_algorithm(collective, name);
    if (algorithm == nullptr || !obstacle(*algorithm, bytes, facts, spec).empty()) continue;
    const TuningRow* row = facts.tuned == nullptr ? nullptr : facts.tuned->find(collective, bytes);
    if (row != nullptr && row->algorithm != nullptr && row->algorithm != algorithm &&
        same_sums(*row->algorithm, *algorithm) && obstacle(*row->algorithm, bytes, facts, spec).empty())
      return with_plan(*row->algorithm, facts, "measured to be quicker than the default");
    return with_plan(*algorithm, facts,
                     spec.restricts(collective) ? "allowed by the given spec" : "the default for this size");
  }
  std::string reasons;
  for (const Candidate& candidate : candidates(collective, bytes, facts, spec)) {
    if (candidate.obstacle.empty()) return with_plan(*candidate.algorithm, facts, "the only one that is allowed");
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", candidate.algorithm->name, candidate.obstacle);
  }
  return fail(Code::unsupported, "no algorithm can run {} of {} bytes with algorithm '{}' and determinism A{} ({})",
              name(collective), bytes, spec.text(), facts.determinism, reasons);
}

}  // namespace rondo
