// The parts of Apache ECharts that the report uses.
import { init, use } from "echarts/core";
import { BarChart, CustomChart, LineChart } from "echarts/charts";
import { AriaComponent, DataZoomInsideComponent, GridComponent, ToolboxComponent, TooltipComponent } from "echarts/components";
import { CanvasRenderer } from "echarts/renderers";

use([
    LineChart, BarChart, CustomChart,
    AriaComponent, DataZoomInsideComponent, GridComponent, ToolboxComponent, TooltipComponent,
    CanvasRenderer,
]);
window.echarts = { init };
