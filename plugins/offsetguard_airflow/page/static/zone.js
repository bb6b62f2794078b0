// Tells the server by which clock to show moments; without a script or a cookie that is UTC.
const zone = `offsetguard_zone=${encodeURIComponent(Intl.DateTimeFormat().resolvedOptions().timeZone)}`;
if (!document.cookie.includes(zone)) {
  document.cookie = `${zone}; path=/; SameSite=Lax; max-age=31536000`;
  if (document.cookie.includes(zone)) location.reload();
}
