// The call board: every rank writes down its latest calls where the others can read them, independent of the algorithm,
// so that a wait that takes long can tell a late rank from one that called something else. Members that share memory
// read each other's piece; entries of the others arrive as control messages and are kept here. Written by the lease
// holder; pieces in shared memory are read by other processes at any time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/types.h"
#include "exec/call.h"
#include "transport/contract.h"

namespace rondo {

struct BoardEntry {
  uint64_t seq = 0;
  uint64_t fingerprint = 0;  // of the chain up to and with this call
  Call call;
  bool operator==(const BoardEntry&) const = default;
};

class CallBoard {
 public:
  static constexpr uint32_t kKept = 16;  // latest calls kept

  // `area`: this rank's and the peers' shared pieces of area_bytes(), or null. area_index[m] is member m's position in
  // the area, or -1 where it is out of reach.
  CallBoard(uint32_t world, Rank rank, std::unique_ptr<SharedArea> area, std::vector<int> area_index);

  static size_t area_bytes() { return sizeof(Piece); }

  void write(const BoardEntry& entry) { write(entry.seq, entry.fingerprint, pack(entry.call)); }
  // A call as it stands on the board. Made once where the same call comes again and again: reading a Call that has just
  // been put together waits until its narrow stores have left the processor, and so for all stores before them.
  struct PackedCall {
    uint64_t kind, choice, count;
  };
  static PackedCall pack(const Call& call) {
    return {static_cast<uint64_t>(call.collective) | static_cast<uint64_t>(call.dtype) << 8 |
                static_cast<uint64_t>(call.op) << 16 | static_cast<uint64_t>(call.vector_form) << 24,
            static_cast<uint64_t>(call.root) | static_cast<uint64_t>(call.choice) << 32, call.count};
  }
  void write(uint64_t seq, uint64_t fingerprint, const PackedCall& call) {
    Line& line = mine_->line[seq % kKept];
    // Release, all: pair with the acquire loads in read(): a reader that sees any new word sees the cleared or the new
    // front word.
    line.word[0].store(0, std::memory_order_release);
    line.word[1].store(fingerprint, std::memory_order_release);
    line.word[2].store(call.kind, std::memory_order_release);
    line.word[3].store(call.choice, std::memory_order_release);
    line.word[4].store(call.count, std::memory_order_release);
    line.word[7].store(seq + 1, std::memory_order_release);
    line.word[0].store(seq + 1, std::memory_order_release);
    mine_->calls.store(seq + 1, std::memory_order_release);  // pairs with calls_of()
  }
  // What this rank called; nullopt when it is too old or not called yet.
  std::optional<BoardEntry> own(uint64_t seq) const;
  // What `member` is known to have called at `seq`.
  std::optional<BoardEntry> of(Rank member, uint64_t seq) const;
  // The number of calls that `member` is known to have made; 0 when nothing is known.
  uint64_t calls_of(Rank member) const;
  // Whether the member's piece is in shared memory; else its entries come by message.
  bool shares(Rank member) const { return area_ != nullptr && area_index_[member] >= 0; }
  // Whether the member's piece has been found, and whether the member has said that it has found all others'.
  bool found(Rank member) const { return piece(member) != nullptr; }
  // What the member has said of the workspace: 0 nothing yet, else a Verdict.
  enum class Verdict : uint64_t { unsaid = 0, lacking = 1, there = 2 };
  void say_workspace(Verdict verdict) {
    mine_->workspace.store(static_cast<uint64_t>(verdict), std::memory_order_release);  // pairs with workspace_of()
  }
  Verdict workspace_of(Rank member) const {
    return static_cast<Verdict>(piece(member)->workspace.load(std::memory_order_acquire));
  }
  bool ready(Rank member) const { return found(member) && piece(member)->ready.load(std::memory_order_acquire) != 0; }
  void set_ready() { mine_->ready.store(1, std::memory_order_release); }  // pairs with ready()
  // Keeps an entry that came by message.
  void learn(Rank member, const BoardEntry& entry);

  // The first call, among those still on both boards, at which this rank and `member` differ.
  struct Difference {
    BoardEntry mine, theirs;
  };
  std::optional<Difference> difference(Rank member) const;

  // Byte form for control messages.
  static std::string encode(uint32_t comm, const BoardEntry& entry);
  static std::optional<std::pair<uint32_t, BoardEntry>> decode(std::string_view bytes);

 private:
  static constexpr uint32_t kWords = 6;  // of a message: sequence number, fingerprint, packed call, communicator
  // An entry is words of 8 bytes: seq + 1 first (0 while it is being written), then the facts, then seq + 1 again.
  struct Line {
    std::atomic<uint64_t> word[8];
  };
  struct Piece {
    std::atomic<uint64_t> calls;
    std::atomic<uint64_t> ready;
    std::atomic<uint64_t> workspace;
    std::atomic<uint64_t> unused[13];
    Line line[kKept];
  };

  const Piece* piece(Rank member) const;
  static std::optional<BoardEntry> read(const Line& line, uint64_t seq);
  static BoardEntry unpack(const std::array<uint64_t, kWords>& words);

  Rank rank_;
  std::unique_ptr<SharedArea> area_;
  std::vector<int> area_index_;
  std::unique_ptr<Piece> private_piece_;  // where nothing is shared
  Piece* mine_;
  std::vector<std::array<BoardEntry, kKept>> learned_;  // by member; seq + 1 == 0 marks nothing
  std::vector<uint64_t> learned_calls_;
};

}  // namespace rondo
