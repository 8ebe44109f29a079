// Everything can be read without this: it picks the reader's language, sorts tables, and unfolds what is printed.
const show = (lang) => {
  document.getElementById(`lang-${lang}`).checked = true;
  document.documentElement.lang = document.querySelector(`main.${lang}`).lang;
};
if (/^zh/i.test(navigator.language)) show("zh");

// Who switches in the middle of the page goes on reading there.
let place = null;
addEventListener("scroll", () => {
  const parts = [...document.querySelectorAll("main [data-part]")].filter((part) => part.offsetParent);
  place = scrollY > 0 ? parts.findLast((part) => part.getBoundingClientRect().top < innerHeight / 3) : null;
}, { passive: true });
for (const choice of document.querySelectorAll('input[name="lang"]')) {
  choice.addEventListener("change", () => {
    const part = place?.dataset.part;
    const lang = choice.id.slice(5);
    show(lang);
    if (part) document.getElementById(`${lang}-${part}`).scrollIntoView();
  });
}

for (const table of document.querySelectorAll(".sortable table")) {
  const body = table.tBodies[0];
  const value = (row, column) => row.cells[column].dataset.sort ?? row.cells[column].textContent;
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const compare = (a, b) => value(a, column).localeCompare(value(b, column), undefined, { numeric: true });
      body.append(...[...body.rows].sort((a, b) => (down ? compare(b, a) : compare(a, b))));
    });
  });
}

addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll("details")) folded.open = true;
});
