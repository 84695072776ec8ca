// A colour and a letter for each namespace: the letter says it without the colour.

const COLOURS = 10;
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** Marks of sorted names: {name: {colour, letter}}. */
export function marks(names) {
  return Object.fromEntries(names.map((name, at) =>
    [name, { colour: at % COLOURS, letter: LETTERS[at % LETTERS.length] }]));
}
