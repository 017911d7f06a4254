// Small helpers to make and change elements. Text is always set as text: names come from other machines.

type Attributes = Record<string, string | number | boolean | undefined>;
type Child = Node | string;

/** An HTML element with attributes and children. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  set(element, attributes);
  element.append(...children);
  return element;
}

/** The same of SVG. */
export function s<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  set(element, attributes);
  element.append(...children);
  return element;
}

/** Sets attributes; `undefined` and `false` remove them. */
export function set(element: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) element.removeAttribute(name);
    else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value === true ? "" : String(value));
  }
}

/** Sets an element's text where it differs, so that what is selected or read aloud stays. */
export function say(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** The element of this id in the page. */
export function at(id: string): HTMLElement {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no ${id}`);
  return element;
}

/** The value of a colour or another property of the style sheet. */
export function style(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
