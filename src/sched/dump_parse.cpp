#include <algorithm>
#include <charconv>
#include <optional>

#include "sched/dump.h"
#include "sched/peers.h"
#include "sched/verify.h"

namespace rondo {
namespace {

constexpr size_t kTextMax = 256u << 20;
constexpr uint32_t kWorldMax = 65535;
constexpr uint32_t kChunksMax = 1u << 24;

// Words of one line: '[', ']', ':' and '*' stand alone, "->" is a word, everything else is split at blanks.
class Words {
 public:
  explicit Words(std::string_view line) : rest_(line) {}

  // The next word without taking it; empty at the end.
  std::string_view peek() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\t' || rest_[0] == '\r')) rest_.remove_prefix(1);
    if (rest_.empty()) return {};
    if (is_single(rest_[0])) return rest_.substr(0, 1);
    size_t end = 0;
    while (end < rest_.size() && !is_single(rest_[end]) && rest_[end] != ' ' && rest_[end] != '\t' &&
           rest_[end] != '\r')
      ++end;
    return rest_.substr(0, end);
  }
  std::string_view take() {
    const std::string_view word = peek();
    rest_.remove_prefix(word.size());
    return word;
  }
  bool take_if(std::string_view word) {
    if (peek() != word) return false;
    take();
    return true;
  }

 private:
  static bool is_single(char c) { return c == '[' || c == ']' || c == ':' || c == '*'; }
  std::string_view rest_;
};

// A word of the text as an error may show it: short, and printable whatever was in it.
std::string shown(std::string_view word) {
  if (word.empty()) return "the end of the line";
  std::string text = "'";
  for (const char c : word.substr(0, 40)) text += c >= ' ' && c < 0x7f ? c : '?';
  return text + "'";
}

class Parser {
 public:
  Status add_line(std::string_view line) {
    ++line_;
    Words words(line.substr(0, line.find('#')));
    if (words.peek().empty()) return {};
    Status status = words.take_if("schedule")  ? add_schedule(words)
                    : words.take_if("scratch") ? add_scratch(words)
                    : words.take_if("lane")    ? add_step(words)
                                               : unexpected(words, "'schedule', 'scratch' or 'lane'");
    if (status.ok() && !words.peek().empty()) status = unexpected(words, "the end of the line");
    if (status.ok()) return status;
    return fail(Code::invalid, "line {}: {}", line_, status.text());
  }

  Status close() {
    if (done_.empty()) return {};
    Schedule& s = done_.back();
    while (s.lane_begin.size() <= s.lanes) s.lane_begin.push_back(static_cast<uint32_t>(s.steps.size()));
    s.peers = std::move(peers_).take();
    peers_ = {};
    const Status status = check_structure(s);
    if (status.ok()) return status;
    return fail(Code::invalid, "the schedule that ends before line {}: {}", line_ + 1, status.text());
  }

  std::vector<Schedule> take() && { return std::move(done_); }

 private:
  Status unexpected(Words& words, std::string_view wanted) {
    return fail(Code::invalid, "{} instead of {}", shown(words.peek()), wanted);
  }

  Status number(Words& words, std::string_view what, uint32_t most, uint32_t& value) {
    const std::string_view word = words.peek();
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (word.empty() || error == std::errc::invalid_argument || end != word.data() + word.size())
      return unexpected(words, what);
    if (error != std::errc() || value > most)
      return fail(Code::invalid, "{} {} is more than {}", what, shown(word), most);
    words.take();
    return {};
  }

  Status named_number(Words& words, std::string_view what, uint32_t most, uint32_t& value) {
    if (!words.take_if(what)) return unexpected(words, what);
    return number(words, what, most, value);
  }

  Status add_schedule(Words& words) {
    --line_;  // an error found in closing belongs to the lines before
    const Status closed = close();
    ++line_;
    RONDO_TRY(closed);
    const std::optional<Collective> collective = collective_named(words.peek());
    if (!collective) return unexpected(words, "a collective");
    words.take();
    Schedule s;
    s.collective = *collective;
    RONDO_TRY(named_number(words, "world", kWorldMax, s.world));
    RONDO_TRY(named_number(words, "rank", kWorldMax, s.rank));
    RONDO_TRY(named_number(words, "root", kWorldMax, s.root));
    RONDO_TRY(named_number(words, "chunks", kChunksMax, s.chunks));
    RONDO_TRY(named_number(words, "lanes", 255, s.lanes));
    done_.push_back(std::move(s));
    return {};
  }

  Status add_scratch(Words& words) {
    if (done_.empty()) return fail(Code::invalid, "'scratch' before the first 'schedule'");
    if (!done_.back().lane_begin.empty() || !done_.back().scratch.empty())
      return fail(Code::invalid, "'scratch' does not follow 'schedule'");
    do {
      uint32_t chunk = 0;
      RONDO_TRY(number(words, "a chunk", kChunksMax, chunk));
      done_.back().scratch.push_back(chunk);
    } while (!words.peek().empty());
    return {};
  }

  Status add_step(Words& words) {
    if (done_.empty()) return fail(Code::invalid, "'lane' before the first 'schedule'");
    Schedule& s = done_.back();
    uint32_t lane = 0, index = 0;
    RONDO_TRY(number(words, "a lane", 254, lane));
    if (lane >= s.lanes) return fail(Code::invalid, "lane {} of {}", lane, s.lanes);
    if (lane + 1u < s.lane_begin.size())
      return fail(Code::invalid, "lane {} after lane {}", lane, s.lane_begin.size() - 1);
    while (s.lane_begin.size() <= lane) s.lane_begin.push_back(static_cast<uint32_t>(s.steps.size()));
    RONDO_TRY(number(words, "a step", UINT32_MAX, index));
    const size_t expected = s.steps.size() - s.lane_begin[lane];
    if (index != expected) return fail(Code::invalid, "step {} instead of {}", index, expected);
    if (!words.take_if(":")) return unexpected(words, "':'");
    Step step;
    const bool idle = words.peek() == "idle";
    RONDO_TRY(read_value(words, step));
    RONDO_TRY(read_targets(words, step, idle));
    RONDO_TRY(read_flags(words, step));
    s.steps.push_back(step);
    return {};
  }

  Status read_chunk(Words& words, Place& place, uint32_t& chunk) {
    if (words.take_if("input")) {
      place = Place::input;
    } else if (words.take_if("output")) {
      place = Place::output;
    } else if (words.take_if("scratch")) {
      place = Place::scratch;
    } else {
      return unexpected(words, "'input', 'output' or 'scratch'");
    }
    if (!words.take_if(":")) return unexpected(words, "':'");
    return number(words, "a chunk", kChunksMax, chunk);
  }

  // "[" ranks "]"; a star follows the own rank and no other where `own` says so.
  Status read_list(Words& words, uint32_t& offset, bool own) {
    if (!words.take_if("[")) return unexpected(words, "'['");
    std::vector<uint32_t> ranks;
    while (!words.take_if("]")) {
      uint32_t rank = 0;
      RONDO_TRY(number(words, "a rank", kWorldMax, rank));
      ranks.push_back(rank);
      if (words.take_if("*") != (own && rank == done_.back().rank))
        return fail(Code::invalid, "the star belongs to the own rank {} only", done_.back().rank);
    }
    if (ranks.empty()) return fail(Code::invalid, "an empty list of ranks");
    own_in_list_ = std::find(ranks.begin(), ranks.end(), done_.back().rank) != ranks.end();
    offset = peers_.add(ranks);
    return {};
  }

  Status read_value(Words& words, Step& step) {
    if (words.take_if("idle")) return {};
    if (words.take_if("recv")) {
      uint32_t rank = 0;
      RONDO_TRY(number(words, "a rank", kWorldMax, rank));
      step.from = peers_.add({&rank, 1});
      step.verbs = kRecv;
    } else if (words.take_if("reduce")) {
      step.verbs = kRecv | kReduce;
      RONDO_TRY(read_list(words, step.from, true));
    } else {
      return read_chunk(words, step.src_place, step.src_chunk);
    }
    const bool has_own = has(step, kReduce) && own_in_list_;
    if (words.take_if(has_own ? "own" : "size")) return read_chunk(words, step.src_place, step.src_chunk);
    return has_own ? unexpected(words, "'own'") : Status();
  }

  Status read_targets(Words& words, Step& step, bool idle) {
    if (idle) return {};
    if (words.peek() != "->") return unexpected(words, "'->'");
    while (words.take_if("->")) {
      if (words.take_if("drop")) {
        if (step.verbs != kRecv) return fail(Code::invalid, "'drop' belongs to a bare 'recv'");
        return {};
      }
      if (words.take_if("send")) {
        RONDO_TRY(read_list(words, step.to, false));
        step.verbs |= kSend;
        return {};
      }
      if (has(step, kStore)) return unexpected(words, "'send'");
      RONDO_TRY(read_chunk(words, step.dst_place, step.dst_chunk));
      step.verbs |= kStore;
    }
    return {};
  }

  Status read_flags(Words& words, Step& step) {
    if (words.take_if("final")) step.flags |= kFinal;
    if (!words.take_if("wait")) return {};
    uint32_t lane = 0;
    RONDO_TRY(number(words, "a lane", 254, lane));
    step.wait_lane = static_cast<uint8_t>(lane);
    if (!words.take_if(":")) return unexpected(words, "':'");
    return number(words, "a step", UINT32_MAX, step.wait_step);
  }

  std::vector<Schedule> done_;
  PeerPool peers_;
  bool own_in_list_ = false;  // of the list read last
  size_t line_ = 0;
};

}  // namespace

Result<std::vector<Schedule>> parse(std::string_view text) {
  if (text.size() > kTextMax) return fail(Code::invalid, "{} bytes of text, more than {}", text.size(), kTextMax);
  Parser parser;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (Status status = parser.add_line(text.substr(0, end)); !status.ok()) return status;
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  if (Status status = parser.close(); !status.ok()) return status;
  return std::move(parser).take();
}

}  // namespace rondo
