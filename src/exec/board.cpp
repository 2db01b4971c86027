#include "exec/board.h"

#include <cstring>

#include "base/check.h"

namespace rondo {
namespace {

constexpr uint64_t kNothing = ~uint64_t{0};

}  // namespace

CallBoard::CallBoard(uint32_t world, Rank rank, std::unique_ptr<SharedArea> area, std::vector<int> area_index)
    : rank_(rank), area_(std::move(area)), area_index_(std::move(area_index)), learned_(world), learned_calls_(world) {
  RONDO_CHECK(area_index_.size() == world);
  for (auto& entries : learned_)
    for (BoardEntry& entry : entries) entry.seq = kNothing;
  if (area_ == nullptr) private_piece_ = std::make_unique<Piece>();
  mine_ = area_ ? reinterpret_cast<Piece*>(area_->mine()) : private_piece_.get();
}

BoardEntry CallBoard::unpack(const std::array<uint64_t, kWords>& words) {
  BoardEntry entry;
  entry.seq = words[0];
  entry.fingerprint = words[1];
  // A stranger's bytes may name what does not exist: fold them into the range, the text is all that suffers.
  entry.call.collective = static_cast<Collective>((words[2] & 0xff) % kCollectiveCount);
  entry.call.dtype = static_cast<DType>((words[2] >> 8 & 0xff) % kDTypeCount);
  entry.call.op = static_cast<RedOp>((words[2] >> 16 & 0xff) % kRedOpCount);
  entry.call.vector_form = (words[2] >> 24 & 1) != 0;
  entry.call.root = static_cast<uint32_t>(words[3]);
  entry.call.choice = static_cast<uint32_t>(words[3] >> 32);
  entry.call.count = words[4];
  return entry;
}

std::optional<BoardEntry> CallBoard::read(const Line& line, uint64_t seq) {
  // Pairs with the release stores in write(): the back word is read first and the front word last, so that a rewrite in
  // between shows.
  const uint64_t back = line.word[7].load(std::memory_order_acquire);
  std::array<uint64_t, kWords> words{};
  for (uint32_t i = 4; i > 0; --i) words[i] = line.word[i].load(std::memory_order_acquire);
  const uint64_t front = line.word[0].load(std::memory_order_acquire);
  if (front != seq + 1 || back != seq + 1) return std::nullopt;
  words[0] = seq;
  return unpack(words);
}

const CallBoard::Piece* CallBoard::piece(Rank member) const {
  if (member == rank_) return mine_;
  if (area_ == nullptr || area_index_[member] < 0) return nullptr;
  return reinterpret_cast<const Piece*>(area_->of(static_cast<uint32_t>(area_index_[member])));
}

std::optional<BoardEntry> CallBoard::own(uint64_t seq) const { return read(mine_->line[seq % kKept], seq); }

std::optional<BoardEntry> CallBoard::of(Rank member, uint64_t seq) const {
  if (const Piece* shared = piece(member)) return read(shared->line[seq % kKept], seq);
  const BoardEntry& entry = learned_[member][seq % kKept];
  if (entry.seq != seq) return std::nullopt;
  return entry;
}

uint64_t CallBoard::calls_of(Rank member) const {
  if (const Piece* shared = piece(member)) return shared->calls.load(std::memory_order_acquire);
  return learned_calls_[member];
}

void CallBoard::learn(Rank member, const BoardEntry& entry) {
  learned_[member][entry.seq % kKept] = entry;
  if (entry.seq + 1 > learned_calls_[member]) learned_calls_[member] = entry.seq + 1;
}

std::optional<CallBoard::Difference> CallBoard::difference(Rank member) const {
  const uint64_t mine = mine_->calls.load(std::memory_order_relaxed);
  const uint64_t theirs = calls_of(member);
  const uint64_t end = mine < theirs ? mine : theirs;
  for (uint64_t seq = end > kKept ? end - kKept : 0; seq < end; ++seq) {
    const auto a = own(seq), b = of(member, seq);
    if (a && b && a->fingerprint != b->fingerprint) return Difference{*a, *b};
  }
  return std::nullopt;
}

std::string CallBoard::encode(uint32_t comm, const BoardEntry& entry) {
  const PackedCall call = pack(entry.call);
  const std::array<uint64_t, kWords> words = {entry.seq, entry.fingerprint, call.kind, call.choice, call.count, comm};
  return std::string(reinterpret_cast<const char*>(words.data()), sizeof words);
}

std::optional<std::pair<uint32_t, BoardEntry>> CallBoard::decode(std::string_view bytes) {
  std::array<uint64_t, kWords> words;
  if (bytes.size() != sizeof words) return std::nullopt;
  std::memcpy(words.data(), bytes.data(), sizeof words);
  return std::make_pair(static_cast<uint32_t>(words[5]), unpack(words));
}

}  // namespace rondo
