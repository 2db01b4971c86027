#include "transport/rendezvous_wire.h"

#include "transport/address.h"

namespace rondo {
namespace {

constexpr std::string_view kFileHead = "rondo meeting 1";
constexpr size_t kAddressesMax = 16;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string_view next_line(std::string_view& text) {
  const size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

}  // namespace

std::string hex_of(Bytes bytes) {
  std::string out;
  for (const uint8_t byte : bytes) out += fmt::format("{:02x}", byte);
  return out;
}

bool hex_to_key(std::string_view digits, JobKey& out) {
  if (digits.size() != 2 * out.size()) return false;
  for (size_t i = 0; i < out.size(); ++i) {
    const int high = hex_digit(digits[2 * i]), low = hex_digit(digits[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    out[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return true;
}

std::string sign(const JobKey& session, std::string_view label, std::string_view payload) {
  std::string out;
  put<uint32_t>(out, static_cast<uint32_t>(payload.size()));
  out += payload;
  put_bytes(out, keyed_digest(session, label, payload, ""));
  return out;
}

Result<std::optional<std::string>> open_signed(const JobKey& session, std::string_view label, Bytes bytes,
                                               size_t most) {
  WireReader in(bytes);
  const auto length = in.get<uint32_t>();
  if (!in.ok()) return std::optional<std::string>();
  if (length > most) return fail(Code::invalid, "{} of {} bytes, {} is the most", label, length, most);
  if (in.left() < length + kDigestBytes) return std::optional<std::string>();
  std::optional<std::string> payload = in.get_string(length);
  Digest digest;
  in.get_array(digest);
  if (!same_digest(digest, keyed_digest(session, label, *payload, "")))
    return fail(Code::auth, "{} is not signed with the job's key", label);
  return payload;
}

std::string encode_entry(const Entry& entry) {
  std::string out;
  put<uint64_t>(out, entry.instance);
  put<uint64_t>(out, entry.left_ns);
  put<uint32_t>(out, static_cast<uint32_t>(entry.origin.size()));
  out += entry.origin;
  put<uint32_t>(out, static_cast<uint32_t>(entry.blob.size()));
  out += entry.blob;
  return out;
}

Result<Entry> parse_entry(std::string_view payload) {
  WireReader in(bytes_of(payload));
  Entry entry;
  entry.instance = in.get<uint64_t>();
  entry.left_ns = in.get<uint64_t>();
  const auto origin_bytes = in.get<uint32_t>();
  if (origin_bytes > kOriginMax) return fail(Code::invalid, "entry with an origin of {} bytes", origin_bytes);
  entry.origin = in.get_string(origin_bytes);
  const auto blob_bytes = in.get<uint32_t>();
  if (blob_bytes > kBlobMax) return fail(Code::invalid, "entry with a blob of {} bytes", blob_bytes);
  entry.blob = in.get_string(blob_bytes);
  if (!in.ok() || in.left() != 0) return fail(Code::invalid, "entry of {} bytes does not parse", payload.size());
  return entry;
}

std::string encode_answer(const Answer& answer) {
  std::string out;
  put<uint32_t>(out, static_cast<uint32_t>(answer.code));
  put<uint32_t>(out, static_cast<uint32_t>(answer.text.size()));
  out += answer.text;
  put<uint64_t>(out, answer.job);
  put<uint32_t>(out, static_cast<uint32_t>(answer.blobs.size()));
  for (const std::string& blob : answer.blobs) {
    put<uint32_t>(out, static_cast<uint32_t>(blob.size()));
    out += blob;
  }
  return out;
}

Result<Answer> parse_answer(std::string_view payload) {
  WireReader in(bytes_of(payload));
  Answer answer;
  const auto code = static_cast<int32_t>(in.get<uint32_t>());
  if (code > 0 || code < static_cast<int32_t>(Code::internal)) return fail(Code::invalid, "answer with code {}", code);
  answer.code = static_cast<Code>(code);
  answer.text = in.get_string(in.get<uint32_t>());
  answer.job = in.get<uint64_t>();
  const auto count = in.get<uint32_t>();
  // Each blob takes four bytes at least, so that the loop is bounded by what has come.
  if (!in.ok() || count > in.left() / 4)
    return fail(Code::invalid, "answer of {} bytes does not parse", payload.size());
  for (uint32_t i = 0; i < count && in.ok(); ++i) answer.blobs.push_back(in.get_string(in.get<uint32_t>()));
  if (!in.ok() || in.left() != 0) return fail(Code::invalid, "answer of {} bytes does not parse", payload.size());
  return answer;
}

std::string encode_meeting(const MeetingFile& file) {
  std::string out = fmt::format("{}\nsecret {}\n", kFileHead, hex_of(file.secret));
  for (const std::string& address : file.addresses) out += fmt::format("address {}\n", address);
  return out;
}

Result<MeetingFile> parse_meeting(std::string_view text) {
  if (text.size() > kMeetingFileMax)
    return fail(Code::invalid, "{} bytes, {} is the most", text.size(), kMeetingFileMax);
  constexpr std::string_view kSecret = "secret ", kAddress = "address ";
  MeetingFile file;
  if (next_line(text) != kFileHead) return fail(Code::invalid, "it is not a rondo meeting file");
  const std::string_view secret = next_line(text);
  if (!secret.starts_with(kSecret) || !hex_to_key(secret.substr(kSecret.size()), file.secret))
    return fail(Code::invalid, "its second line is not a secret");
  while (!text.empty()) {
    const std::string_view line = next_line(text);
    if (!line.starts_with(kAddress) || file.addresses.size() >= kAddressesMax)
      return fail(Code::invalid, "it has a line that is not an address");
    const std::string_view address = line.substr(kAddress.size());
    RONDO_TRY(parse_address(address).status());
    file.addresses.emplace_back(address);
  }
  if (file.addresses.empty()) return fail(Code::invalid, "it has no address");
  return file;
}

}  // namespace rondo
