"use strict";
// Plotly figures in the colours of the page.
const dark = matchMedia("(prefers-color-scheme: dark)");
const colours = () => {
  const style = getComputedStyle(document.documentElement), of = name => style.getPropertyValue(name).trim();
  const axis = { gridcolor: of("--rule"), zerolinecolor: of("--rule"), automargin: true };
  return { ink: of("--ink"), axis };
};
const layout = given => {
  const { ink, axis } = colours();
  return Object.assign({}, given, {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: ink, size: 12 },
    margin: { l: 56, r: 12, t: 30, b: 40 }, height: given.height || 300, legend: { orientation: "h", y: 1.02, yanchor: "bottom" }, colorway: ["#1f6feb", "#e8710a", "#1a9850", "#c2185b", "#7b3fb5", "#00838f", "#8d6e63", "#9e9d24"],
    xaxis: Object.assign({}, given.xaxis, axis), yaxis: Object.assign({}, given.yaxis, axis),
  });
};
const drawChart = (element, figure) => Plotly.react(
  element, figure.data, layout(figure.layout), { responsive: true, displaylogo: false, displayModeBar: false });
