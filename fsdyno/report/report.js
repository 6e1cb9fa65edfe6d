// What a dot says, under the pointer or a finger. Without scripts every number is still in the tables.
const tip = document.getElementById('tip');
document.addEventListener('pointerover', (event) => {
  const text = event.target.dataset && event.target.dataset.t;
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const box = event.target.getBoundingClientRect();
  const left = Math.min(Math.max(8, box.left + box.width / 2 - tip.offsetWidth / 2), innerWidth - tip.offsetWidth - 8);
  tip.style.left = `${left + scrollX}px`;
  tip.style.top = `${box.top + scrollY - tip.offsetHeight - 8}px`;
});
