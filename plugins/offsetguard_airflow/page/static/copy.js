// Buttons that copy the command before them. They are hidden where no script runs.
const show = () => document.querySelectorAll("button.copy[hidden]").forEach((button) => { button.hidden = false; });
show();
document.addEventListener("htmx:oobAfterSwap", show);
document.addEventListener("click", async ({ target }) => {
  if (!target.matches("button.copy")) return;
  const command = target.previousElementSibling;
  try {
    await navigator.clipboard.writeText(command.textContent);
  } catch { // browsers have no clipboard for pages over plain HTTP
    getSelection().selectAllChildren(command);
    document.execCommand("copy");
  }
  target.textContent = target.textContent.replace(/( ✓)?$/, " ✓");
});
