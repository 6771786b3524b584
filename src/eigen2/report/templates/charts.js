"use strict";
// Plotly figures in the colours of the page.
const dark = matchMedia("(prefers-color-scheme: dark)");
const colours = () => {
  const style = getComputedStyle(document.documentElement), of = name => style.getPropertyValue(name).trim();
  const axis = { gridcolor: of("--rule"), zerolinecolor: of("--rule"), automargin: true };
  return { ink: of("--ink"), axis };
};
const layout = given => {
  const { ink, axis } = colours(), turned = (name) => Object.assign({}, axis, given[name], { gridcolor: axis.gridcolor, zerolinecolor: axis.zerolinecolor });
  return Object.assign({}, given, {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: ink, size: 12 },
    margin: { l: 56, r: 12, t: 10, b: 40 }, height: given.height || 300, showlegend: given.showlegend !== false,
    legend: { orientation: "h", y: 1.02, yanchor: "bottom" }, colorway: COLOURS,
    xaxis: turned("xaxis"), yaxis: turned("yaxis"),
  });
};
// Of a figure with choices, one is drawn at a time; the user's choice outlives an update.
const chooser = (element, figure) => {
  let select = element.previousElementSibling;
  if (!select || select.tagName !== "SELECT") {
    select = document.createElement("select"); select.setAttribute("aria-label", "what is shown"); element.before(select);
    select.dataset.choice = figure.choices[figure.chosen].label.split(" (")[0];
  }
  select.replaceChildren(...figure.choices.map((choice, at) => new Option(choice.label, at)));
  const known = figure.choices.findIndex(choice => choice.label.split(" (")[0] === select.dataset.choice);
  select.value = known >= 0 ? known : figure.chosen;
  select.onchange = () => { select.dataset.choice = figure.choices[select.value].label.split(" (")[0]; drawChart(element, figure); };
  return figure.choices[select.value].traces.map(at => figure.data[at]);
};
const drawChart = (element, figure) => Plotly.react(
  element, figure.choices ? chooser(element, figure) : figure.data, layout(figure.layout), { responsive: true, displaylogo: false, displayModeBar: false });
