#include "train/dataset.h"

#include <fmt/core.h>
#include <zlib.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>

#include "train/random.h"

namespace rondo::train {

namespace {

constexpr size_t kFileBytesMax = size_t{256} << 20;  // four times the largest file of the family
constexpr uint8_t kIdxUnsignedByte = 8;

uint32_t big_endian_32(std::span<const uint8_t> bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | uint32_t{bytes[3]};
}

template <class... Args>
Status dataset_fault(fmt::format_string<Args...> format, Args&&... args) {
  return {Fault::dataset, "dataset: " + fmt::format(format, std::forward<Args>(args)...)};
}

struct CloseGzip {
  void operator()(gzFile file) const { gzclose(file); }
};

std::string gzip_cause(gzFile file) {
  int error = Z_OK;
  const char* text = gzerror(file, &error);
  if (error == Z_ERRNO) return fmt::format("{} (errno {})", std::strerror(errno), errno);
  return text;
}

}  // namespace

Result<IdxArray> parse_idx(std::span<const uint8_t> file, size_t dimensions, std::string_view name) {
  const size_t header = 4 + 4 * dimensions;
  if (file.size() < 4) return dataset_fault("{}: {} bytes, too short for an idx header", name, file.size());
  if (file[0] != 0 || file[1] != 0) {
    return dataset_fault("{}: not an idx file, it starts with {:#04x} {:#04x}", name, file[0], file[1]);
  }
  if (file[2] != kIdxUnsignedByte) return dataset_fault("{}: element type {:#04x}, expected 0x08", name, file[2]);
  if (file[3] != dimensions) return dataset_fault("{}: {} dimensions, expected {}", name, file[3], dimensions);
  if (file.size() < header) {
    return dataset_fault("{}: {} bytes, its header alone has {}", name, file.size(), header);
  }
  IdxArray array;
  size_t count = 1;
  for (size_t i = 0; i < dimensions; ++i) {
    const size_t dim = big_endian_32(file.subspan(4 + 4 * i, 4));
    if (dim == 0) return dataset_fault("{}: dimension {} is 0", name, i);
    if (dim > kFileBytesMax / count) return dataset_fault("{}: its dimensions exceed {} bytes", name, kFileBytesMax);
    count *= dim;
    array.dims.push_back(dim);
  }
  if (file.size() - header != count) {
    return dataset_fault("{}: {} bytes of data, its header announces {}", name, file.size() - header, count);
  }
  array.bytes.assign(file.begin() + static_cast<ptrdiff_t>(header), file.end());
  return array;
}

Result<std::vector<uint8_t>> read_file(const std::string& path, size_t bytes_max) {
  errno = 0;
  const std::unique_ptr<gzFile_s, CloseGzip> file(gzopen(path.c_str(), "rb"));
  if (file == nullptr) return dataset_fault("{}: {} (errno {})", path, std::strerror(errno), errno);
  std::vector<uint8_t> content;
  std::array<uint8_t, 1 << 16> part;
  while (true) {  // ends at the latest when the content exceeds bytes_max
    const int got = gzread(file.get(), part.data(), part.size());
    if (got < 0) return dataset_fault("{}: {}", path, gzip_cause(file.get()));
    if (got == 0) break;
    if (content.size() + static_cast<size_t>(got) > bytes_max) {
      return dataset_fault("{}: its content exceeds {} bytes", path, bytes_max);
    }
    content.insert(content.end(), part.begin(), part.begin() + got);
  }
  // A compressed stream that ends early reads like the end of the file; zlib tells only in its error state.
  int error = Z_OK;
  const char* text = gzerror(file.get(), &error);
  if (error != Z_OK) return dataset_fault("{}: {}", path, text);
  return content;
}

Result<ImageSet> join_images(IdxArray images, IdxArray labels, size_t classes, std::string_view name) {
  if (images.dims.size() != 3 || labels.dims.size() != 1) {
    return dataset_fault("{}: images of {} dimensions and labels of {}, expected 3 and 1", name, images.dims.size(),
                         labels.dims.size());
  }
  if (images.dims[0] != labels.dims[0]) {
    return dataset_fault("{}: {} images but {} labels", name, images.dims[0], labels.dims[0]);
  }
  for (size_t i = 0; i < labels.bytes.size(); ++i) {
    if (labels.bytes[i] >= classes) {
      return dataset_fault("{}: label {} of image {} is not below {}", name, labels.bytes[i], i, classes);
    }
  }
  return ImageSet{.extent = {1, images.dims[1], images.dims[2]},
                  .count = images.dims[0],
                  .pixels = std::move(images.bytes),
                  .labels = std::move(labels.bytes)};
}

namespace {

// An exact integer sum, so that the result depends on nothing but the pixels.
void measure(Dataset& data) {
  uint64_t sum = 0, squares = 0;
  for (const uint8_t pixel : data.train.pixels) {
    sum += pixel;
    squares += uint64_t{pixel} * pixel;
  }
  const auto count = static_cast<double>(data.train.pixels.size());
  const double mean = static_cast<double>(sum) / count;
  const double variance = static_cast<double>(squares) / count - mean * mean;
  data.mean = static_cast<float>(mean / 255.0);
  data.deviation = static_cast<float>(std::sqrt(std::max(variance, 1.0)) / 255.0);
}

Result<IdxArray> load_idx(const std::string& folder, const std::string& file, size_t dimensions) {
  std::string path = folder + "/" + file;
  std::error_code ignored;
  if (std::filesystem::exists(path + ".gz", ignored)) path += ".gz";
  Result<std::vector<uint8_t>> content = read_file(path, kFileBytesMax);
  if (!content.ok()) return content.status();
  return parse_idx(content.value(), dimensions, path);
}

Result<ImageSet> load_set(const std::string& folder, const std::string& prefix, size_t classes) {
  Result<IdxArray> images = load_idx(folder, prefix + "-images-idx3-ubyte", 3);
  if (!images.ok()) return images.status();
  Result<IdxArray> labels = load_idx(folder, prefix + "-labels-idx1-ubyte", 1);
  if (!labels.ok()) return labels.status();
  return join_images(std::move(images).value(), std::move(labels).value(), classes, folder + "/" + prefix);
}

// One image a class, of 7 x 7 squares of random grey: coarse enough to survive pooling.
std::vector<uint8_t> synthetic_prototypes(Random& random) {
  std::vector<uint8_t> squares(10 * 7 * 7);
  for (uint8_t& grey : squares) grey = static_cast<uint8_t>(random.below(256));
  std::vector<uint8_t> pixels;
  for (size_t row = 0; row < size_t{10} * 28; ++row) {
    for (size_t column = 0; column < 28; ++column) pixels.push_back(squares[row / 4 * 7 + column / 4]);
  }
  return pixels;
}

ImageSet synthetic_set(size_t count, const std::vector<uint8_t>& prototypes, Random& random) {
  ImageSet set{.extent = {1, 28, 28}, .count = count};
  const size_t pixels = set.extent.count();
  for (size_t i = 0; i < count; ++i) {
    const size_t label = random.below(10);
    set.labels.push_back(static_cast<uint8_t>(label));
    for (size_t p = 0; p < pixels; ++p) {
      set.pixels.push_back(static_cast<uint8_t>(prototypes[label * pixels + p] / 2 + random.below(128)));
    }
  }
  return set;
}

}  // namespace

Result<Dataset> load_fashion_mnist(const std::string& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    return dataset_fault(
        "{}: no such folder; Fashion-MNIST is the Debian package dataset-fashion-mnist "
        "(apt-get install dataset-fashion-mnist), or pass --data DIR",
        folder);
  }
  Dataset data{.description = "Fashion-MNIST", .classes = 10};
  Result<ImageSet> train = load_set(folder, "train", data.classes);
  if (!train.ok()) return train.status();
  Result<ImageSet> test = load_set(folder, "t10k", data.classes);
  if (!test.ok()) return test.status();
  if (train->extent != test->extent) return dataset_fault("{}: training and test images differ in size", folder);
  data.train = std::move(train).value();
  data.test = std::move(test).value();
  measure(data);
  return data;
}

Dataset make_synthetic(size_t images, uint64_t seed) {
  Random random(seed);
  const std::vector<uint8_t> prototypes = synthetic_prototypes(random);
  Dataset data{.description = "SYNTHETIC (generated images, no real data set)", .classes = 10};
  data.train = synthetic_set(images, prototypes, random);
  data.test = synthetic_set(std::max<size_t>(images / 5, 1), prototypes, random);
  measure(data);
  return data;
}

void gather_batch(const Dataset& data, const ImageSet& set, std::span<const uint32_t> chosen, Tensor& batch,
                  std::vector<uint8_t>& labels) {
  const size_t pixels = set.extent.count();
  const float scale = 1.0f / (255.0f * data.deviation);
  const float shift = data.mean / data.deviation;
  batch.resize({chosen.size(), pixels});
  labels.resize(chosen.size());
  for (size_t i = 0; i < chosen.size(); ++i) {
    const uint8_t* from = set.pixels.data() + chosen[i] * pixels;
    float* to = batch.row(i).data();
    for (size_t p = 0; p < pixels; ++p) to[p] = static_cast<float>(from[p]) * scale - shift;
    labels[i] = set.labels[chosen[i]];
  }
}

}  // namespace rondo::train
