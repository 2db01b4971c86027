// Labelled images: the idx files of the MNIST family (gzip or plain), and a generated set for tests. Parsing is a pure
// function over bytes with every size checked before it is used. Values; a loaded set is read-only and may be shared.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/layers.h"
#include "train/status.h"
#include "train/tensor.h"

namespace rondo::train {

// An idx array of unsigned bytes. `bytes` has exactly the product of dims elements, the last dim runs fastest.
struct IdxArray {
  std::vector<size_t> dims;
  std::vector<uint8_t> bytes;
};

// Parses a whole idx file: two zero bytes, type 8 (unsigned byte), the number of dimensions, each as a big-endian
// 32-bit word, then the data and nothing after it. `name` opens the text of a failure.
Result<IdxArray> parse_idx(std::span<const uint8_t> file, size_t dimensions, std::string_view name);

// Reads a file that is gzip or plain, whichever it turns out to be, up to bytes_max of content; a longer one, a
// damaged one and one cut short in its compressed form are failures.
Result<std::vector<uint8_t>> read_file(const std::string& path, size_t bytes_max);

struct ImageSet {
  Extent extent;
  size_t count = 0;
  std::vector<uint8_t> pixels;  // count x extent
  std::vector<uint8_t> labels;  // count
};

struct Dataset {
  std::string description;
  size_t classes = 0;
  float mean = 0, deviation = 1;  // of a pixel of the training set, scaled to [0, 1]
  ImageSet train, test;
};

// Joins images and labels; a count that differs, an empty set and a label of `classes` or more are failures.
Result<ImageSet> join_images(IdxArray images, IdxArray labels, size_t classes, std::string_view name);

// The four files of Fashion-MNIST in `folder`, with or without ".gz".
Result<Dataset> load_fashion_mnist(const std::string& folder);

// `images` generated training images (and a fifth as many to test) of ten classes, the same for the same seed. They
// look like nothing; they are learnable, and say so in their description.
Dataset make_synthetic(size_t images, uint64_t seed);

// Copies the chosen images, as (pixel / 255 - mean) / deviation, and their labels into a batch.
void gather_batch(const Dataset& data, const ImageSet& set, std::span<const uint32_t> chosen, Tensor& batch,
                  std::vector<uint8_t>& labels);

}  // namespace rondo::train
