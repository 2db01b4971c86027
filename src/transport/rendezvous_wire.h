// What is said at the rendezvous once the handshake is through: one signed entry from each rank, one signed answer from
// rank 0. Pure functions; lengths are capped before anything is copied.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "transport/handshake.h"
#include "transport/wire.h"

namespace rondo {

inline constexpr size_t kBlobMax = 64 << 10;
inline constexpr size_t kOriginMax = 256;
inline constexpr size_t kEntryMax = kBlobMax + kOriginMax + 64;
inline constexpr size_t kAnswerMax = 256 << 20;
inline constexpr size_t kMeetingFileMax = 4096;

// A frame on the wire: length, payload, keyed digest of label and payload.
std::string sign(const JobKey& session, std::string_view label, std::string_view payload);
// nullopt: more bytes are needed. Invalid: longer than `most`. Auth: the digest is wrong.
Result<std::optional<std::string>> open_signed(const JobKey& session, std::string_view label, Bytes bytes, size_t most);

struct Entry {
  uint64_t instance = 0;  // drawn once per join(): tells a rank that dialed again from a second one of the same number
  uint64_t left_ns = 0;   // until this rank's deadline
  std::string origin;     // "pid 12 on host", for error texts
  std::string blob;

  bool operator==(const Entry&) const = default;
};
std::string encode_entry(const Entry& entry);
Result<Entry> parse_entry(std::string_view payload);

struct Answer {
  Code code = Code::ok;
  std::string text;                // of a failure
  uint64_t job = 0;                // else
  std::vector<std::string> blobs;  // by rank

  bool operator==(const Answer&) const = default;
};
std::string encode_answer(const Answer& answer);
Result<Answer> parse_answer(std::string_view payload);

// The file of a file:// rendezvous: a secret that only readers of the file know, and where rank 0 listens.
struct MeetingFile {
  JobKey secret{};
  std::vector<std::string> addresses;

  bool operator==(const MeetingFile&) const = default;
};
std::string encode_meeting(const MeetingFile& file);
Result<MeetingFile> parse_meeting(std::string_view text);

std::string hex_of(Bytes bytes);
// False: not exactly 2 * out.size() hex digits.
bool hex_to_key(std::string_view digits, JobKey& out);

}  // namespace rondo
