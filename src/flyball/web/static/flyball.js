// Keys of every page, the choice of light or dark, and what happens when the control plane is gone.
(() => {
  const typing = (el) => el && (/^(INPUT|TEXTAREA|SELECT)$/.test(el.tagName) || el.isContentEditable);
  let chord = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && typing(document.activeElement)) return void document.activeElement.blur();
    if (typing(document.activeElement)) return;
    if (event.key === "/") {
      event.preventDefault();
      document.querySelector(".fb-search")?.focus();
    } else if (event.key === "g") {
      chord = Date.now();
    } else if (Date.now() - chord < 1500) {
      chord = 0;
      const link = [...document.querySelectorAll("a.nav")].find((a) => a.dataset.key === event.key);
      if (link) window.location.href = link.href;
    } else if (event.key === "j" || event.key === "k" || event.key === "Enter") {
      document.dispatchEvent(new CustomEvent("flyball-key", { detail: event.key }));
    } else if (event.key === "n") {
      document.querySelector("[data-key-n]")?.click();
    } else if (event.key === "?") {
      document.querySelector("[data-key-help]")?.click();
    }
  });
  // On a phone the views are a row that scrolls: show the current one.
  const reveal = () => document.querySelector("a.nav[aria-current=page]")?.scrollIntoView({ inline: "center", block: "nearest" });
  const seen = new MutationObserver(() => {
    if (!document.querySelector("a.nav[aria-current=page]")) return;
    seen.disconnect();
    requestAnimationFrame(reveal);
  });
  seen.observe(document.documentElement, { childList: true, subtree: true });
  window.flyballSearch = (text) => {
    if (!text) return;
    const isJob = /^[1-9][0-9]*(_[0-9]+)?$/.test(text);
    window.location.href = isJob ? `/jobs/${text}` : `/queue?search=${encodeURIComponent(text)}`;
  };
  window.flyballTheme = (value) => {
    document.cookie = `flyball_theme=${value}; path=/; max-age=31536000; samesite=strict`;
    Quasar.Dark.set(value === "auto" ? "auto" : value === "dark");
  };
  // While the connection is lost, ask whether the session is still good: if not, the page says how to
  // get a link instead of waiting for ever.
  setInterval(async () => {
    const popup = document.getElementById("popup");
    if (!popup || popup.ariaHidden !== "false") return;
    popup.setAttribute("role", "alert");
    try {
      const answer = await fetch("/api/v1/whoami", { cache: "no-store" });
      if (answer.status === 401) window.location.reload();
    } catch { /* it is not back yet */ }
  }, 2000);
})();
