#!/usr/bin/env python3
"""tidy_test.py [--self-test] [ROOT]: the rules of the house that a compiler does not know.

Checks the include direction between layers, words that do not belong in a layer, the length of files and functions,
header guards and a few more. Prints one line per finding, `path:line: rule: text`, and exits 1 when there is one.
--self-test instead feeds each rule snippets that it must find and snippets that it must leave alone.
"""
import os
import re
import sys

FILE_LINES = 600
FUNCTION_LINES = 70

# (rule, path) -> why it may stand. An entry that is no longer needed is itself a finding, so the list only shrinks.
ALLOWANCES = {
    ("print", "src/base/check.cpp"): "a failed check has no logger and ends the process",
    ("end the process", "src/base/check.cpp"): "a failed check is a defect of ours",
}

FOLDERS = ("include", "src", "kernels", "transports", "tests", "bench", "tools")
CPP = (".h", ".hpp", ".cpp", ".c", ".cc", ".cu", ".cuh", ".inc")
OTHER = (".py", ".sh", ".cmake", ".txt")

# What each layer may include, besides itself. "api" is include/rondo.
LEFT_OF = {
    "base": "",
    "topo": "base",
    "discover": "base topo",
    "sched": "base topo",
    "algo": "base topo sched",
    "sim": "base topo sched",
    "tune": "base topo sched algo sim",
    "kernels": "base",
    "transport": "base",
    "transports": "base transport kernels",
    "exec": "base topo sched transport kernels",
    "comm": "base topo discover sched algo sim tune kernels transport transports exec",
    "capi": "base topo discover sched algo sim tune kernels transport transports exec comm api",
    "api": "",
    "hvd": "api",
    "train": "api hvd",
    "bindings": "api hvd",
}
LEFT_OF = {layer: set(names.split()) | {layer} for layer, names in LEFT_OF.items()}
FREE = {"tools", "bench", "tests"}           # may include every layer
PROGRAMS = FREE | {"train", "bindings"}      # may print, sleep and read the environment

# rule -> (pattern over code without comments and strings, test of (layer, path) that says where it is allowed)
WORDS = {
    "environment": (r"\b(?:secure_)?getenv\b|\bgetenv_s\b|\b(?:set|unset|put|clear)env\b|\benviron\b",
                    lambda layer, path: layer in PROGRAMS or path == "src/base/config.cpp"),
    "print": (r"\bv?(?:f|d)?printf\b|\b(?:f?puts|f?putc|putchar|perror)\b|\bstd::(?:cout|cerr|clog)\b|\bfmt::v?print\b",
              lambda layer, path: layer in PROGRAMS),
    "new": (r"(?<!unique_ptr)(?<!shared_ptr)\b(?!new\s*\()new\b(?!\s*\()",
            lambda layer, path: layer in FREE or layer == "capi"),  # the handles that C programs hold
    "delete": (r"(?<!=)(?<!= )(?<!operator )\bdelete\b(?! this\b)",
               lambda layer, path: layer in FREE or layer == "capi"),
    "throw": (r"\bthrow\b", lambda layer, path: layer in PROGRAMS or path == "include/rondo/rondo.hpp"),
    "thread": (r"\bstd::(?:j?thread|async)\b|\bpthread_create\b|\bthrd_create\b",
               lambda layer, path: layer in PROGRAMS or layer == "comm"),
    "sleep": (r"\bsleep_(?:for|until)\b|\b(?:u|nano|clock_nano)?sleep\s*\(", lambda layer, path: layer in PROGRAMS),
    # A copy of `sizeof x` bytes is an instruction or two, not a call.
    "glibc copy": (r"\bmem(?:cpy|move)\b(?!\s*\([^;]*,\s*sizeof\b[^,;]*;)", lambda layer, path: not path.startswith(("transports/shm/", "src/exec/"))),
    "fence": (r"\batomic_(?:thread|signal)_fence\b|\b__sync_synchronize\b", lambda layer, path: False),
    "signal handler": (r"\bsigaction\s*\(|\bstd::signal\b|(?<![\w.>])signal\s*\(", lambda layer, path: layer in PROGRAMS),
    "end the process": (r"\bstd::(?:abort|exit|quick_exit|terminate|_Exit)\b|(?<!\w)::(?:abort|exit)\s*\(|\b_exit\s*\(",
                        lambda layer, path: layer in PROGRAMS),
}
# A new that goes straight into its owner is how a resource with a private constructor is made.
OWNED_NEW = re.compile(r"(?:unique_ptr|shared_ptr)\s*<[^;]*?>\s*(?:\w+\s*)?[({]\s*$|\b\w+Ref\b\s*\w*\s*[({]\s*$|\breset\s*\(\s*$")

TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^()\s\\]{0,16})\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"'
                   r"|(?<![0-9a-zA-Z_])'(?:\\.|[^'\\\n])*'", re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<(rondo/[^>]+)>)', re.M)


def blank(text):
    return re.sub(r"[^\n]", " ", text)


def without_comments_and_strings(text):
    return TOKEN.sub(lambda m: '""' + blank(m.group())[2:] if '"' in m.group()[:2] else blank(m.group()), text)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def layer_of(path):
    parts = path.split("/")
    if parts[0] == "src":
        return parts[1] if len(parts) > 2 else "src"
    return "api" if parts[0] == "include" else parts[0]


def included_layer(name):
    first = name.split("/")[0]
    return "api" if first == "rondo" else first


def matching_brace(code, start):
    depth = 0
    for match in re.compile(r"[{}]").finditer(code, start):
        depth += 1 if match.group() == "{" else -1
        if depth == 0:
            return match.start()
    return len(code) - 1


def functions(code):
    """(first line, last line) of every function body at namespace or class scope of directive-free code."""
    found = []
    position = head = 0
    while True:
        match = re.compile(r"[{};]").search(code, position)
        if not match:
            return found
        position = match.end()
        text = code[head:match.start()]
        if match.group() != "{":
            head = position
            continue
        scope = re.search(r"\b(?:namespace|class|struct|union|extern)\b", re.sub(r"\(.*\)|<[^<>]*>", "", text, flags=re.S))
        if scope and not re.search(r"\)\s*(?:const|noexcept|override|final|->[^{]*)*\s*$", text):
            head = position
            continue
        end = matching_brace(code, match.start())
        if "(" in text and not re.search(r"=\s*$", text):
            while True:  # braces of a constructor's initialisers come before its body
                following = re.compile(r"\s*(?:,[^;{}]*)?\{").match(code, end + 1)
                if not following:
                    break
                end = matching_brace(code, following.end() - 1)
            first = head + len(text) - len(text.lstrip())
            found.append((line_of(code, first), line_of(code, end)))
        position = head = end + 1


def check_includes(path, layer, text, report):
    stripped = re.sub(r"/\*.*?\*/|//[^\n]*", lambda m: blank(m.group()), text, flags=re.S)
    for match in INCLUDE.finditer(stripped):
        name = match.group(1) or match.group(2)
        line = line_of(stripped, match.start(match.lastindex))
        if "../" in name or name.startswith("./"):
            report("relative include", line, f'"{name}": paths start at src/ or at the root')
            continue
        if layer in FREE or layer not in LEFT_OF or name == "rondo/version.h":
            continue
        if "/" not in name:
            report("relative include", line, f'"{name}": paths start at src/ or at the root')
            continue
        target = included_layer(name)
        if target not in LEFT_OF and target not in FREE:
            continue  # another project's header
        if target not in LEFT_OF[layer]:
            report("include direction", line, f'{layer} must not include "{name}"')
        elif target == "transports" and layer == "transports" and name.split("/")[1] != path.split("/")[1]:
            report("include direction", line, f'one transport must not include another: "{name}"')


def check_words(path, layer, code, report):
    for rule, (pattern, allowed) in WORDS.items():
        if allowed(layer, path):
            continue
        for match in re.finditer(pattern, code):
            if rule == "new" and OWNED_NEW.search(code[max(0, match.start() - 200):match.start()]):
                continue
            report(rule, line_of(code, match.start()), f"'{match.group().strip()}' does not belong here")


def check_header(path, text, report):
    if not path.endswith((".h", ".hpp", ".cuh")):
        return
    if path.startswith("include/"):
        if not re.search(r"^#ifndef (RONDO_\w+)\n#define \1$", text, re.M):
            report("header guard", 1, "a public header has an #ifndef RONDO_… guard")
    elif "#pragma once" not in text and "HWY_TARGET_TOGGLE" not in text:
        report("header guard", 1, "no #pragma once")


def check_cpp(path, text, report):
    layer = layer_of(path)
    check_includes(path, layer, text, report)
    check_header(path, text, report)
    code = without_comments_and_strings(text)
    plain = DIRECTIVE.sub(lambda m: blank(m.group()), code)
    check_words(path, layer, plain, report)
    conditionals = [line_of(code, m.start()) for m in re.finditer(r"^[ \t]*#[ \t]*if", code, re.M)]
    for first, last in functions(plain):
        if last - first + 1 > FUNCTION_LINES:
            report("function length", first, f"{last - first + 1} lines, at most {FUNCTION_LINES}")
        for line in conditionals:
            if first < line < last:
                report("conditional", line, "#if inside a function")


def check_file(path, text, report):
    lines = text.count("\n")
    if lines > FILE_LINES:
        report("file length", 1, f"{lines} lines, at most {FILE_LINES}")
    if path.endswith(CPP):
        check_cpp(path, text, report)


def findings_of(path, text):
    found = []
    check_file(path, text, lambda rule, line, why: found.append((rule, line, why)))
    return found


def files(root):
    for folder in FOLDERS:
        for where, folders, names in os.walk(os.path.join(root, folder)):
            folders[:] = sorted(f for f in folders if not f.startswith((".", "build", "__pycache__")))
            for name in sorted(names):
                if name.endswith(CPP + OTHER):
                    yield os.path.relpath(os.path.join(where, name), root).replace(os.sep, "/")


def check_tree(root):
    count = failures = 0
    unused = dict(ALLOWANCES)
    for path in files(root):
        count += 1
        with open(os.path.join(root, path), encoding="utf-8") as source:
            text = source.read()
        for rule, line, why in findings_of(path, text):
            if (rule, path) in ALLOWANCES:
                unused.pop((rule, path), None)
                continue
            print(f"{path}:{line}: {rule}: {why}")
            failures += 1
    for rule, path in unused:
        print(f"{path}: allowance for '{rule}' is no longer needed: remove it from ALLOWANCES")
        failures += 1
    print(f"tidy_test: {count} files, {failures} findings")
    return count > 0 and failures == 0


# ---- self-test ----

LONG_FUNCTION = "int f(int a) {\n" + "  ++a;\n" * FUNCTION_LINES + "  return a;\n}\n"
LONG_CONSTRUCTOR = "struct S {\n  S() : a_{1}, b_{2} {\n" + "    ++a_;\n" * FUNCTION_LINES + "  }\n};\n"
ONCE = "#pragma once\n"

# (path, text, the rules it breaks)
SEEDS = [
    ("src/base/a.cpp", '#include "topo/topology.h"\n', ["include direction"]),
    ("src/sched/a.cpp", '#include "algo/registry.h"\n', ["include direction"]),
    ("src/sched/a.cpp", '#include "kernels/kernels.h"\n', ["include direction"]),
    ("src/sched/a.cpp", '#include "base/status.h"\n#include "topo/t.h"\n', []),
    ("src/exec/a.cpp", '#include "transports/shm/shm.h"\n', ["include direction"]),
    ("src/exec/a.cpp", '#include "algo/registry.h"\n', ["include direction"]),
    ("src/transport/a.cpp", '#include "kernels/kernels.h"\n', ["include direction"]),
    ("transports/tcp/a.cpp", '#include "transports/shm/shm.h"\n', ["include direction"]),
    ("transports/tcp/a.cpp", '#include "transports/tcp/tcp.h"\n#include "transport/transport.h"\n', []),
    ("kernels/a.cpp", '#include "sched/schedule.h"\n', ["include direction"]),
    ("src/comm/a.cpp", '#include "capi/handles.h"\n', ["include direction"]),
    ("src/comm/a.cpp", '#include "rondo/rondo.h"\n', ["include direction"]),
    ("src/comm/a.cpp", "#include <rondo/rondo.h>\n", ["include direction"]),
    ("src/comm/a.cpp", '#include "rondo/version.h"\n', []),
    ("src/capi/a.cpp", '#include "comm/communicator.h"\n#include "rondo/rondo.h"\n', []),
    ("src/train/a.cpp", '#include "base/status.h"\n', ["include direction"]),
    ("src/train/a.cpp", '#include "train/tensor.h"\n#include "rondo/rondo.h"\n', []),
    ("src/comm/a.cpp", '#include "tests/exec/helper.h"\n', ["include direction"]),
    ("kernels/a.cpp", '#include "hwy/highway.h"\n', []),
    ("src/base/a.cpp", '// #include "topo/topology.h"\n', []),
    ("src/base/a.cpp", '#include "../topo/topology.h"\n', ["relative include"]),
    ("tests/exec/a.cpp", '#include "../exec/helper.h"\n', ["relative include"]),
    ("src/base/a.cpp", '#include "status.h"\n', ["relative include"]),
    ("src/base/status.cpp", 'const char* a = getenv("A");\n', ["environment"]),
    ("src/base/config.cpp", 'const char* a = getenv("A");\n', []),
    ("src/comm/a.cpp", 'const char* a = std::getenv("A");\n', ["environment"]),
    ("src/comm/a.cpp", '// getenv is not for here\nconst char* a = "getenv";\n', []),
    ("tools/a.cpp", 'const char* a = getenv("A");\n', []),
    ("src/comm/a.cpp", 'void f() { printf("x"); }\n', ["print"]),
    ("src/comm/a.cpp", 'void f() { std::fprintf(stderr, "x"); }\n', ["print"]),
    ("src/comm/a.cpp", 'void f() { std::cerr << "x"; }\n', ["print"]),
    ("src/comm/a.cpp", 'void f(char* b) { snprintf(b, 2, "x"); }\n', []),
    ("src/train/a.cpp", 'void f() { printf("x"); }\n', []),
    ("src/comm/a.cpp", "int* p = new int;\n", ["new"]),
    ("src/comm/a.cpp", "S* p = new S{1};\n", ["new"]),
    ("src/comm/a.cpp", "auto p = std::unique_ptr<S>(new S(1));\n", []),
    ("src/comm/a.cpp", "std::unique_ptr<S> p(new S(1));\n", []),
    ("src/comm/a.cpp", "OperationRef operation(new Operation);\n", []),
    ("src/capi/a.cpp", "void f(S* p) { delete p; p = new S{1}; }\n", []),
    ("src/comm/a.cpp", "void f(void* m) { ::new (m) int(3); }\n", []),
    ("src/comm/a.cpp", "void f(int* p) { delete p; }\n", ["delete"]),
    ("src/comm/a.cpp", "void f() { if (last()) delete this; }\n", []),
    ("src/comm/a.cpp", "struct S { S(const S&) = delete; };\n", []),
    ("src/comm/a.cpp", "void f() { throw 1; }\n", ["throw"]),
    ("include/rondo/rondo.hpp", "#ifndef RONDO_HPP\n#define RONDO_HPP\nvoid f() { throw 1; }\n#endif\n", []),
    ("src/exec/a.cpp", "std::thread t;\n", ["thread"]),
    ("transports/tcp/a.cpp", "std::jthread t;\n", ["thread"]),
    ("src/comm/a.cpp", "std::thread t;\n", []),
    ("src/exec/a.cpp", "void f() { std::this_thread::yield(); }\n", []),
    ("src/exec/a.cpp", "void f() { std::this_thread::sleep_for(t); }\n", ["sleep"]),
    ("src/transport/a.cpp", "void f() { usleep(5); }\n", ["sleep"]),
    ("src/exec/a.cpp", "void f() { std::memcpy(a, b, 3); }\n", ["glibc copy"]),
    ("transports/shm/a.cpp", "void f() { memmove(a, b, 3); }\n", ["glibc copy"]),
    ("transports/tcp/a.cpp", "void f() { memcpy(a, b, 3); }\n", []),
    ("src/exec/a.cpp", "void f() { std::memcpy(a.data(), b.data(), sizeof a); }\n", []),
    ("src/exec/a.cpp", "void f() { std::memcpy(a, sizeof b + c, n); memcpy(a, b, sizeof a); }\n", ["glibc copy"]),
    ("transports/shm/a.cpp", "void f() { std::atomic_thread_fence(std::memory_order_acquire); }\n", ["fence"]),
    ("tests/a.cpp", "void f() { __sync_synchronize(); }\n", ["fence"]),
    ("src/comm/a.cpp", "void f() { signal(SIGPIPE, SIG_IGN); }\n", ["signal handler"]),
    ("src/comm/a.cpp", "void f(C& c) { c.signal(1); }\n", []),
    ("src/comm/a.cpp", "void f() { std::abort(); }\n", ["end the process"]),
    ("src/comm/a.cpp", "void f(C& c) { c.abort(why); }\n", []),
    ("src/base/a.h", "int f();\n", ["header guard"]),
    ("src/base/a.h", ONCE + "int f();\n", []),
    ("include/rondo/a.h", ONCE, ["header guard"]),
    ("src/base/a.cpp", LONG_FUNCTION, ["function length"]),
    ("src/base/a.cpp", LONG_CONSTRUCTOR, ["function length"]),
    ("src/base/a.cpp", "namespace a {\nclass B {\n" + LONG_FUNCTION + "};\n}\n", ["function length"]),
    ("src/base/a.cpp", "namespace a {\n" + "int f() { return 1; }\n" * 100 + "}\n", []),
    ("src/base/a.cpp", "constexpr int kTable[] = {\n" + "  1,\n" * 100 + "};\n", []),
    ("src/base/a.cpp", "struct S {\n" + "  int a;\n" * 100 + "};\n", []),
    ("src/base/a.cpp", "char a = '{';\n// {\n" + "int f();\n" * 100, []),
    ("src/base/a.cpp", 'auto a = R"(\n{ printf( new\n)";\nint b = 1\'000;\n', []),
    ("src/base/a.cpp", "int a;\n" * (FILE_LINES + 1), ["file length"]),
    ("tools/a.sh", "true\n" * (FILE_LINES + 1), ["file length"]),
    ("src/base/a.cpp", "int f() {\n#ifdef X\n  return 1;\n#endif\n  return 2;\n}\n", ["conditional"]),
    ("src/base/a.cpp", "#ifdef X\nint f() {\n  return 2;\n}\n#endif\n", []),
]


def self_test():
    wrong = 0
    for path, text, expected in SEEDS:
        found = sorted({rule for rule, _, _ in findings_of(path, text)})
        if found != sorted(expected):
            print(f"self-test: {path}: expected {expected}, found {found} in:\n{text[:300]}")
            wrong += 1
    tested = {rule for _, _, rules in SEEDS for rule in rules}
    for rule in list(WORDS) + ["include direction", "relative include", "header guard", "file length", "function length",
                               "conditional"]:
        if rule not in tested:
            print(f"self-test: no seed breaks '{rule}'")
            wrong += 1
    line = findings_of("src/base/a.cpp", "int a;\n/* two\nlines */ std::thread t;\n")[0][1]
    if line != 3:
        print(f"self-test: finding in line {line}, expected 3")
        wrong += 1
    print(f"tidy_test: {len(SEEDS)} seeds, {wrong} wrong")
    return wrong == 0


def main():
    arguments = [a for a in sys.argv[1:] if a != "--self-test"]
    if "--self-test" in sys.argv[1:]:
        return 0 if self_test() else 1
    root = arguments[0] if arguments else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return 0 if check_tree(root) else 1


if __name__ == "__main__":
    sys.exit(main())
