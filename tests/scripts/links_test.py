#!/usr/bin/env python3
"""Every relative link of the repository's pages leads to a file that git tracks (or a folder of such)."""
import re
import subprocess
import sys
from pathlib import Path

root = Path(__file__).resolve().parents[2]
tracked = subprocess.run(["git", "-C", root, "ls-files"], check=True, capture_output=True, text=True).stdout.split("\n")
known = {str(parent) for file in tracked if file for parent in [Path(file), *Path(file).parents]}
faults = []
for page in (file for file in tracked if file.endswith(".md")):
    for number, line in enumerate((root / page).read_text(encoding="utf-8").splitlines(), 1):
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", line):
            if re.match(r"[a-z]+:", link):
                continue
            target = (root / page).parent.joinpath(link).resolve()
            if root not in [target, *target.parents] or str(target.relative_to(root)) not in known:
                faults.append(f"{page}:{number}: {link} is not in the repository")
print("\n".join(faults) or "links: all lead somewhere")
sys.exit(1 if faults else 0)
