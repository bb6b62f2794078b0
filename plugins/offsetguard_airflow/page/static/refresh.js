// Around htmx, which fetches this very page every 30 s and swaps its live parts: says when it last did, or that it could
// not; waits while nobody looks, or somebody selects text; and leaves the focus, and what is unfolded, as it was.
const line = document.getElementById("refreshed");
const places = () => [...document.querySelectorAll("a, button, summary, [tabindex]:not(.chart)")];
const folds = () => [...document.querySelectorAll("details")];
let shownAt = new Date(), place = -1, focused = null, opened = [];

const say = (words, role) => {
  line.textContent = words.replace("{at}", shownAt.toLocaleTimeString(document.documentElement.lang, { hour12: false }));
  line.className = role === "alert" ? "failed" : "soft";
  role ? line.setAttribute("role", role) : line.removeAttribute("role");
};
line.addEventListener("htmx:beforeRequest", (event) => {
  if (document.hidden || !getSelection().isCollapsed) event.preventDefault();
});
line.addEventListener("htmx:beforeSwap", () => {
  focused = document.activeElement;
  place = places().indexOf(focused);
  opened = folds().map((fold) => fold.open);
});
line.addEventListener("htmx:afterRequest", ({ detail }) => {
  if (!detail.successful) return say(line.dataset.failed, "alert");
  shownAt = new Date(detail.xhr.getResponseHeader("Date") ?? Date.now());
  say(line.dataset.done);
  folds().forEach((fold, number) => { fold.open = opened[number] ?? fold.open; });
  const now = places()[place];
  if (now && !focused.isConnected && now.href === focused.href) now.focus({ preventScroll: true });
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && Date.now() - shownAt > 30_000) htmx.trigger(line, "refresh");
});
