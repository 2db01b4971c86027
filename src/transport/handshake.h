// The handshake of every socket between ranks: mutual proof of the same job key, job number and purpose.
//
//   dialer                         acceptor
//     hello            ->                      a stranger sends anything else and is dropped without an answer
//                      <-         hello, proof
//     proof            ->                      the acceptor's owner may still refuse
//                      <-         welcome
//
// A proof is a BLAKE2b of the sender's role and both hellos, keyed with the job key (with zeros when there is none:
// then it shows integrity only). Nonces make each proof good for one connection; the role keeps a proof from being
// reflected. Parsing is pure and of fixed size. A Handshake is driven by one thread and never blocks.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"
#include "transport/identity.h"
#include "transport/wire.h"

namespace rondo {

inline constexpr uint16_t kHandshakeVersion = 1;
inline constexpr size_t kPurposeBytes = 16;
inline constexpr size_t kNonceBytes = 32;
inline constexpr size_t kDigestBytes = 32;
inline constexpr size_t kHelloBytes = 8 + 2 + 2 + 1 + kPurposeBytes + 8 + 4 + 4 + 4 + 4 + kNonceBytes;
inline constexpr int64_t kHandshakeNs = 5'000'000'000;

using Digest = std::array<uint8_t, kDigestBytes>;
using JobKey = std::array<uint8_t, 32>;

struct Hello {
  uint16_t machine = 0;  // byte order and pointer width; ranks of one job agree on it
  bool keyed = false;
  std::array<char, kPurposeBytes> purpose{};  // padded with zeros
  uint64_t job = 0;
  uint32_t epoch = 0;
  Rank rank = 0;
  uint32_t world = 0;
  uint32_t stream = 0;
  std::array<uint8_t, kNonceBytes> nonce{};

  bool operator==(const Hello&) const = default;
};

enum class Role : uint8_t { dialer = 1, acceptor = 2 };

std::string encode(const Hello& hello);
// Invalid: not a hello. Mismatch: the hello of another version of the protocol.
Result<Hello> parse_hello(Bytes bytes);
// Whether the bytes that have come so far can still become a hello.
bool may_be_hello(Bytes bytes);
// Why two hellos cannot belong to one job and purpose; ok when they can.
Status compatible(const Hello& mine, const Hello& theirs);

Digest keyed_digest(const JobKey& key, std::string_view label, std::string_view first, std::string_view second);
// In constant time.
bool same_digest(Bytes left, Bytes right);

struct HandshakeOptions {
  Identity identity;
  std::string_view purpose;  // at most kPurposeBytes
  uint32_t stream = 0;
  std::optional<Rank> peer;  // dialer: the rank that must answer
  Deadline deadline;
};

class Handshake {
 public:
  enum class State : uint8_t {
    working,  // wait for events() on fd()
    asking,   // acceptor: the peer has proved itself; welcome() or drop it
    done,
    failed,  // see why()
  };

  // Takes over a connected, non-blocking socket.
  Handshake(UniqueFd fd, Role role, const HandshakeOptions& options);

  // Goes as far as the socket allows.
  State advance();
  // Tells the dialer that it is taken; advance() then ends in done.
  void welcome();

  State state() const { return state_; }
  int fd() const { return fd_.get(); }
  short events() const;  // for poll
  Deadline deadline() const { return deadline_; }
  const Hello& peer() const { return peer_; }  // asking, done
  bool heard() const { return heard_; }        // whether the peer has sent a hello of this protocol
  const Status& why() const { return why_; }
  // Known to both ends alone (with a job key): signs what follows on this socket.
  JobKey session_key() const;
  UniqueFd take_fd() { return std::move(fd_); }

 private:
  enum class Step : uint8_t { hello, proof, asked, welcome };

  bool flush();
  bool fill(size_t bytes);
  bool take_hello();
  bool take_proof();
  bool take_welcome();
  State end(Status why);
  std::string_view dialer_hello() const { return role_ == Role::dialer ? my_hello_ : peer_hello_; }
  std::string_view acceptor_hello() const { return role_ == Role::dialer ? peer_hello_ : my_hello_; }
  Digest proof_of(Role role) const;

  UniqueFd fd_;
  Role role_;
  JobKey key_;
  std::optional<Rank> wanted_;
  Deadline deadline_;
  Hello mine_, peer_;
  std::string my_hello_, peer_hello_;
  std::string in_, out_;
  Step step_ = Step::hello;
  State state_ = State::working;
  bool heard_ = false;
  Status why_;
};

}  // namespace rondo
