// Airflow frames our pages in a sandbox that keeps links with a target inside: neither allow-top-navigation nor
// allow-popups (3.3). The page around it is of our own origin, and follows such a link for us.
if (window.parent !== window) {
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[target]");
    if (link === null) return;
    event.preventDefault();
    const outside = window.parent.document.createElement("a");
    outside.href = link.href;
    outside.target = link.target;
    outside.rel = link.rel;
    outside.click();
  });
}
