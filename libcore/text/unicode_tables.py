"""Writes unicode_categories.inc, unicode_marks.inc and unicode_decompositions.inc next to itself.

Categories are those of Unicode 16.0, as in the regular expressions of Hugging Face's tokenizers and of tiktoken.
Normalization is that of Unicode 9.0, as in Hugging Face's normalizer. Python 3.14 includes Unicode 16.0; older versions
need the package unicodedata2 (16.0.0):
    python3 libcore/text/unicode_tables.py
"""
import os

try:
    import unicodedata2 as unicodedata
except ImportError:
    import unicodedata

VERSION = "16.0.0"
if unicodedata.unidata_version != VERSION:
    raise SystemExit(f"this Python knows Unicode {unicodedata.unidata_version}; wanted {VERSION}")

# Categories that no caller distinguishes are joined: marks, symbols, separators, punctuation except connectors.
APART = ("Lu", "Ll", "Lt", "Lm", "Lo", "Nd", "Nl", "No", "Pc")


def write(name, about, items):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    with open(path, "w") as out:
        out.write(f"// {about}.\n// Written by unicode_tables.py.\n")
        line = ""
        for item in items:
            if len(line) + len(item) > 118:
                out.write(line + "\n")
                line = ""
            line += (" " if line else "") + item
        out.write(line + "\n")


def ranges(value_of, leave_out):
    """(first, last, value) of every run of code points with one value."""
    found, first = [], 0
    for code in range(0x110000 + 1):
        value = value_of(code) if code < 0x110000 else None
        if code == 0:
            held = value
        elif value != held:
            if held != leave_out:
                found.append((first, code - 1, held))
            first, held = code, value
    return found


def category(code):
    name = unicodedata.category(chr(code))
    return "none" if name == "Cn" else name if name in APART else name[0]


def in_turn(found):
    """Joins neighboring code points that have two values in turn, as upper and lower case do: (first, last, values)."""
    joined = []
    for first, last, value in found:
        if joined and first == last == joined[-1][1] + 1:
            begin, end, values = joined[-1]
            if begin == end or (len(values) == 2 and value == values[(first - begin) % 2]):
                joined[-1] = (begin, last, values if len(values) == 2 else [*values, value])
                continue
        joined.append((first, last, [value]))
    return joined


write("unicode_categories.inc", "Inclusive ranges of code points, and their category or two that they have in turn, in "
      "Unicode 16.0", [f"{{0x{a:X},0x{b:X},{','.join(values)}}}," for a, b, values in in_turn(ranges(category, "none"))])

# Characters with a combining class or a decomposition that were added after Unicode 9.0.
SINCE_9 = """
7FD 897-89F 8CA-8D3 9FE C3C D3B-D3C EBA 1715 1ABF-1ACE 1DF6-1DFA A82C 105C9 105E4 10D24-10D27 10D69-10D6D
10EAB-10EAC 10EFD-10EFF 10F46-10F50 10F82-10F85 11070 1133B 11383 11385 1138E 11391 113C5 113C7-113C8
113CE-113D0 1145E 11839-1183A 11938 1193D-1193E 11943 119E0 11A34 11A47 11A99 11D42 11D44-11D45 11D97
11F41-11F42 16121-16128 1612F 16D68-16D6A 16FF0-16FF1 1E08F 1E130-1E136 1E2AE 1E2EC-1E2EF 1E4EC-1E4EF
1E5EE-1E5EF
"""
new = set()
for item in SINCE_9.split():
    first, _, last = item.partition("-")
    new.update(range(int(first, 16), int(last or first, 16) + 1))

write("unicode_marks.inc", "Inclusive ranges of code points and their combining class in Unicode 9.0",
      [f"{{0x{a:X},0x{b:X},{value}}},"
       for a, b, value in ranges(lambda code: 0 if code in new else unicodedata.combining(chr(code)), 0)])

rows = []
for code in range(0x110000):
    parts = unicodedata.decomposition(chr(code))
    if not parts or parts[0] == "<" or code in new:
        continue
    parts = parts.split()
    composed = unicodedata.normalize("NFC", chr(code)) == chr(code)
    numbers = ",".join(f"0x{int(part, 16):X}" for part in parts)
    rows.append(f"{{0x{code:X},{numbers}{'' if composed == (len(parts) == 2) else ',false'}}},")
write("unicode_decompositions.inc", "Canonical decompositions in Unicode 9.0: of, first, second if there is one, and false "
      "if these are not composed again", rows)
