#include "transport/handshake.h"

#include <poll.h>
#include <sodium.h>
#include <sys/socket.h>

#include <bit>
#include <cerrno>

#include "transport/address.h"

namespace rondo {
namespace {

constexpr std::string_view kMagic("RONDO\x01\xf7\n", 8);  // a byte above 127 and a newline: no text protocol starts so
constexpr char kWelcome = 'W';
static_assert(crypto_generichash_KEYBYTES_MIN <= 32 && crypto_generichash_KEYBYTES_MAX >= 32);

constexpr uint16_t this_machine() {
  return static_cast<uint16_t>((std::endian::native == std::endian::little ? 0x100 : 0x200) | sizeof(void*));
}

Hello make_hello(const HandshakeOptions& options) {
  RONDO_CHECK(options.purpose.size() <= kPurposeBytes);
  Hello hello;
  hello.machine = this_machine();
  hello.keyed = options.identity.keyed;
  std::copy(options.purpose.begin(), options.purpose.end(), hello.purpose.begin());
  hello.job = options.identity.job;
  hello.epoch = options.identity.epoch;
  hello.rank = options.identity.rank;
  hello.world = options.identity.world;
  hello.stream = options.stream;
  RONDO_CHECK(sodium_init() >= 0);
  randombytes_buf(hello.nonce.data(), hello.nonce.size());
  return hello;
}

std::string_view purpose_text(const Hello& hello) {
  const std::string_view text(hello.purpose.data(), hello.purpose.size());
  return text.substr(0, text.find('\0'));
}

}  // namespace

std::string encode(const Hello& hello) {
  std::string out(kMagic);
  put<uint16_t>(out, kHandshakeVersion);
  put<uint16_t>(out, hello.machine);
  put<uint8_t>(out, hello.keyed ? 1 : 0);
  out.append(hello.purpose.data(), hello.purpose.size());
  put<uint64_t>(out, hello.job);
  put<uint32_t>(out, hello.epoch);
  put<uint32_t>(out, hello.rank);
  put<uint32_t>(out, hello.world);
  put<uint32_t>(out, hello.stream);
  put_bytes(out, hello.nonce);
  RONDO_CHECK(out.size() == kHelloBytes);
  return out;
}

bool may_be_hello(Bytes bytes) {
  const size_t compared = std::min(bytes.size(), kMagic.size());
  return std::equal(bytes.begin(), bytes.begin() + compared, bytes_of(kMagic).begin());
}

Result<Hello> parse_hello(Bytes bytes) {
  if (bytes.size() != kHelloBytes || !may_be_hello(bytes)) return fail(Code::invalid, "not a rondo handshake");
  WireReader in(bytes.subspan(kMagic.size()));
  const auto version = in.get<uint16_t>();
  if (version != kHandshakeVersion)
    return fail(Code::mismatch, "the other end speaks version {} of the handshake, this one {}", version,
                kHandshakeVersion);
  Hello hello;
  hello.machine = in.get<uint16_t>();
  const auto keyed = in.get<uint8_t>();
  in.get_array(hello.purpose);
  hello.job = in.get<uint64_t>();
  hello.epoch = in.get<uint32_t>();
  hello.rank = in.get<uint32_t>();
  hello.world = in.get<uint32_t>();
  hello.stream = in.get<uint32_t>();
  in.get_array(hello.nonce);
  if (!in.ok() || keyed > 1) return fail(Code::invalid, "not a rondo handshake: wrong fields");
  hello.keyed = keyed == 1;
  return hello;
}

Status compatible(const Hello& mine, const Hello& theirs) {
  if (theirs.machine != mine.machine)
    return fail(Code::mismatch, "the other end's byte order and pointer width are {:#x}, here {:#x}", theirs.machine,
                mine.machine);
  if (theirs.purpose != mine.purpose)
    return fail(Code::mismatch, "the other end's connection is for '{}', not for '{}'", purpose_text(theirs),
                purpose_text(mine));
  if (theirs.job != mine.job)
    return fail(Code::mismatch, "the other end belongs to job {:016x}, not to {:016x}", theirs.job, mine.job);
  if (theirs.epoch != mine.epoch)
    return fail(Code::mismatch, "the other end is in epoch {}, not in {}", theirs.epoch, mine.epoch);
  if (theirs.keyed != mine.keyed)
    return fail(Code::auth, "the other end has {} job key, this one has {}", theirs.keyed ? "a" : "no",
                mine.keyed ? "one" : "none");
  return {};
}

Digest keyed_digest(const JobKey& key, std::string_view label, std::string_view first, std::string_view second) {
  std::string text;
  for (const std::string_view part : {label, first, second}) {
    put<uint64_t>(text, part.size());
    text += part;
  }
  Digest digest{};
  RONDO_CHECK(crypto_generichash(digest.data(), digest.size(), bytes_of(text).data(), text.size(), key.data(),
                                 key.size()) == 0);
  return digest;
}

bool same_digest(Bytes left, Bytes right) {
  return left.size() == right.size() && sodium_memcmp(left.data(), right.data(), left.size()) == 0;
}

Handshake::Handshake(UniqueFd fd, Role role, const HandshakeOptions& options)
    : fd_(std::move(fd)),
      role_(role),
      key_(options.identity.keyed ? options.identity.key : JobKey{}),
      wanted_(options.peer),
      deadline_(options.deadline),
      mine_(make_hello(options)),
      my_hello_(encode(mine_)) {
  if (role_ == Role::dialer) out_ = my_hello_;
}

Digest Handshake::proof_of(Role role) const {
  return keyed_digest(key_, role == Role::dialer ? "dialer" : "acceptor", dialer_hello(), acceptor_hello());
}

JobKey Handshake::session_key() const { return keyed_digest(key_, "session", dialer_hello(), acceptor_hello()); }

short Handshake::events() const { return static_cast<short>(POLLIN | (out_.empty() ? 0 : POLLOUT)); }

Handshake::State Handshake::end(Status why) {
  why_ = std::move(why);
  return state_ = State::failed;
}

// False: not all is sent yet, or the socket has failed.
bool Handshake::flush() {
  while (!out_.empty()) {
    const ssize_t sent = send(fd_.get(), out_.data(), out_.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return false;
    if (sent < 0) {
      end(system_error(errno, "handshake"));
      return false;
    }
    out_.erase(0, static_cast<size_t>(sent));
  }
  return true;
}

// Whether in_ holds `bytes` bytes now; never reads more, what follows is not the handshake's.
bool Handshake::fill(size_t bytes) {
  while (in_.size() < bytes) {
    char buffer[kHelloBytes];
    const ssize_t got = recv(fd_.get(), buffer, std::min(sizeof buffer, bytes - in_.size()), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return false;
    if (got <= 0) {
      end(got == 0 ? fail(Code::peer, "the other end closed the connection during the handshake")
                   : system_error(errno, "handshake"));
      return false;
    }
    in_.append(buffer, static_cast<size_t>(got));
    if (step_ == Step::hello && !may_be_hello(bytes_of(in_))) {
      end(fail(Code::invalid, "the other end does not speak rondo's handshake"));
      return false;
    }
  }
  return true;
}

bool Handshake::take_hello() {
  if (!fill(kHelloBytes)) return false;
  heard_ = true;
  peer_hello_ = std::exchange(in_, {});
  auto hello = parse_hello(bytes_of(peer_hello_));
  Status why = hello.status();
  if (hello.ok()) {
    peer_ = *hello;
    why = compatible(mine_, peer_);
    if (why.ok() && peer_.nonce == mine_.nonce) why = fail(Code::invalid, "the connection leads back to this rank");
    if (why.ok() && wanted_ && peer_.rank != *wanted_)
      why = fail(Code::mismatch, "rank {} answered instead of rank {}", peer_.rank, *wanted_);
  }
  if (role_ == Role::acceptor) out_ += my_hello_;
  if (!why.ok()) {
    flush();  // an acceptor's hello tells the dialer what does not fit
    end(std::move(why));
    return false;
  }
  if (role_ == Role::acceptor) put_bytes(out_, proof_of(Role::acceptor));
  step_ = Step::proof;
  return true;
}

bool Handshake::take_proof() {
  if (!fill(kDigestBytes)) return false;
  const std::string theirs = std::exchange(in_, {});
  // The dialer's proof goes out even when the acceptor's is wrong, so that both ends know why.
  if (role_ == Role::dialer) put_bytes(out_, proof_of(Role::dialer));
  const Role other = role_ == Role::dialer ? Role::acceptor : Role::dialer;
  if (!same_digest(bytes_of(theirs), proof_of(other))) {
    flush();
    end(fail(Code::auth, "the other end does not hold this job's key"));
    return false;
  }
  step_ = role_ == Role::dialer ? Step::welcome : Step::asked;
  return true;
}

bool Handshake::take_welcome() {
  if (!fill(1)) return false;
  if (in_[0] != kWelcome) {
    end(fail(Code::invalid, "the other end broke the handshake off"));
    return false;
  }
  in_.clear();
  state_ = State::done;
  return true;
}

Handshake::State Handshake::advance() {
  if (state_ == State::done || state_ == State::failed) return state_;
  // At most one round for each message of the handshake.
  for (int round = 0; round < 4; ++round) {
    const bool flushed = flush();
    if (state_ == State::failed) return state_;
    if (step_ == Step::asked) return state_ = State::asking;
    if (step_ == Step::welcome && role_ == Role::acceptor) {
      if (flushed) state_ = State::done;
      break;
    }
    bool moved = false;
    if (step_ == Step::hello)
      moved = take_hello();
    else if (step_ == Step::proof)
      moved = take_proof();
    else
      moved = flushed && take_welcome();
    if (!moved || state_ == State::done) break;
  }
  if (state_ == State::working && deadline_.passed())
    return end(fail(Code::timeout, "the other end did not finish the handshake in time"));
  return state_;
}

void Handshake::welcome() {
  RONDO_CHECK(state_ == State::asking);
  out_.push_back(kWelcome);
  step_ = Step::welcome;
  state_ = State::working;
}

}  // namespace rondo
