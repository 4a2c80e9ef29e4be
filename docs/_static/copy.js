// SPDX-License-Identifier: BSD-3-Clause
// Adds a button to each block of code that copies it: of a session only what was typed.
"use strict";
addEventListener("DOMContentLoaded", () => {
  const typed = (text) => {
    const lines = text.trimEnd().split("\n");
    if (!lines.some((line) => line.startsWith(">>> "))) return lines.join("\n");
    const of = (line) => line.startsWith(">>> ") || line === ">>>" || line.startsWith("...");
    return lines.filter(of).map((line) => line.slice(4)).join("\n");
  };
  for (const block of document.querySelectorAll("div.highlight")) {
    const button = document.createElement("button");
    button.className = "copy";
    button.textContent = button.ariaLabel = "copy";
    button.onclick = async () => {
      await navigator.clipboard.writeText(typed(block.querySelector("pre").textContent));
      button.textContent = "copied";
      setTimeout(() => { button.textContent = "copy"; }, 1500);
    };
    block.append(button);
  }
});
