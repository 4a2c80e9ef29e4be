// SPDX-License-Identifier: BSD-3-Clause
// Weighs the results of search. A heading counts as much as a title, so a tutorial about a task would
// be level with every page that mentions the task in a heading.
var Scorer = {
  score: (result) => {
    const page = result[0], score = result[4];
    if (page.startsWith("tutorials/") && page !== "tutorials/index") return score + 6;
    return ["index", "gallery", "tutorials/index"].includes(page) ? score - 6 : score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
