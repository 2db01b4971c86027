#!/usr/bin/env bash
# package_test.sh CMAKE BUILD_DIR CC CXX: what is installed is enough to build and run a C99 and a C++ program, found by
# find_package and by pkg-config, from a prefix that was moved after installing.
set -euo pipefail
cmake=$1 build=$(cd "$2" && pwd) cc=$3 cxx=$4
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset "${!RONDO_@}" LD_LIBRARY_PATH PKG_CONFIG_PATH CMAKE_PREFIX_PATH

fail() {
  echo "package_test: $*" >&2
  exit 1
}

echo "== install into a prefix, then move it"
"$cmake" --install "$build" --prefix "$work/first" >"$work/install.log" || { cat "$work/install.log"; fail "install failed"; }
mv "$work/first" "$work/prefix"
pc=$(find "$work/prefix" -name rondo.pc)
[ -n "$pc" ] || fail "rondo.pc is not installed"
libdir=$(dirname "$(dirname "$pc")")
! grep -rIl -e "$work/first" -e "$build" "$work/prefix/include" "$libdir/cmake" "$libdir/pkgconfig" ||
  fail "installed text files name the build or the old prefix"

echo "== find_package"
"$cmake" -S "$here/consumer" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_C_COMPILER="$cc" \
  -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_BUILD_TYPE=Debug >"$work/configure.log" || { cat "$work/configure.log"; fail "configure failed"; }
"$cmake" --build "$work/consumer" >"$work/build.log" || { cat "$work/build.log"; fail "build failed"; }
"$work/consumer/consumer_c"
"$work/consumer/consumer_cpp"

echo "== pkg-config"
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
# shellcheck disable=SC2046
"$cc" -std=c99 -pedantic -Wall -Wextra -Werror "$here/consumer/consumer.c" -o "$work/by_pc" $(pkg-config --cflags --libs rondo)
LD_LIBRARY_PATH="$libdir" "$work/by_pc"

echo "== the example of the README"
sed -n '/^```c$/,/^```$/p' "$here/../../README.md" | sed '/^```/d' >"$work/example.c"
grep -q rondo_init "$work/example.c" || fail "README.md has no C example"
# shellcheck disable=SC2046
"$cc" -std=c99 -pedantic -Wall -Wextra -Werror "$work/example.c" -o "$work/example" $(pkg-config --cflags --libs rondo)
[ "$(LD_LIBRARY_PATH="$libdir" "$work/example")" = "1 ranks, sum 4" ] || fail "the README's example prints something else"

echo "== installed programs find the library by themselves"
for program in "$work"/prefix/bin/*; do
  [ -x "$program" ] || continue
  ! ldd "$program" | grep -q 'not found' || fail "$program does not find its libraries"
done

echo "== exported symbols are rondo's only"
extra=$(nm -D --defined-only "$libdir"/librondo.so | awk '$2 != "A" {print $3}' | grep -v '^rondo_' || true)
[ -z "$extra" ] || fail "librondo.so exports: $(echo "$extra" | head -5 | tr '\n' ' ')"
echo "package_test: passed"
