"""Pictures of a simulated task, drawn without a screen by EGL or OSMesa; software is enough.

The picture is of a copy of the model with a floor, a sky and a light: what is simulated stays as it is.
"""

import ctypes.util
import os
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigen2.errors import ConfigError

Frame = NDArray[np.uint8]
"""[height, width, 3]"""
NO_RENDERER = (
    "there is nothing to draw with on this machine: install libegl1 and libgl1-mesa-dri, or libosmesa6 "
    "(apt-get install libosmesa6); a graphics card is not needed"
)
DISTANCE = 2.0
"""Of the camera, in extents of the model."""
NEAREST = 2.9


class Camera:
    """Follows the robot; one picture at a time. To be closed."""

    def __init__(self, xml: str, width: int, height: int) -> None:
        import mujoco

        self._mujoco: Any = mujoco
        self._context = _context(width, height)
        self._context.make_current()
        self._model = _scenery(mujoco, xml, width, height)
        self._data = mujoco.MjData(self._model)
        self._drawing = mujoco.MjrContext(self._model, mujoco.mjtFontScale.mjFONTSCALE_100)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._drawing)
        self._scene = mujoco.MjvScene(self._model, maxgeom=1_000)
        self._view = mujoco.MjrRect(0, 0, width, height)
        self._camera = mujoco.MjvCamera()
        self._camera.azimuth, self._camera.elevation = 90.0, -12.0
        extent = float(mujoco.MjModel.from_xml_string(xml).stat.extent)
        self._camera.distance = max(NEAREST, DISTANCE * extent)
        self._frame: Frame = np.empty((height, width, 3), np.uint8)
        mujoco.mj_forward(self._model, self._data)
        self._height = float(self._data.xpos[1, 2])

    @property
    def timestep(self) -> float:
        return float(self._model.opt.timestep)

    def picture(self, position: NDArray[np.float64]) -> Frame:
        """Of the robot with joints at `position` [nq]."""
        mujoco, model, data = self._mujoco, self._model, self._data
        self._context.make_current()
        data.qpos[:] = position
        mujoco.mj_forward(model, data)
        # Sideways it follows, upwards it does not: a jump looks like one.
        self._camera.lookat[:] = (data.xpos[1, 0], data.xpos[1, 1], 0.75 * self._height)
        every, option = mujoco.mjtCatBit.mjCAT_ALL, mujoco.MjvOption()
        mujoco.mjv_updateScene(model, data, option, None, self._camera, every, self._scene)
        mujoco.mjr_render(self._view, self._scene, self._drawing)
        mujoco.mjr_readPixels(self._frame, None, self._view, self._drawing)
        return np.ascontiguousarray(self._frame[::-1])

    def close(self) -> None:
        self._drawing.free()
        self._context.free()


def model_text(model: str) -> str:
    return resources.files("eigen2.envs.control").joinpath("models", model).read_text()


def choose_renderer() -> str:
    """What Gymnasium's and our own pictures are drawn with; what MUJOCO_GL says, else what is there."""
    wanted = os.environ.get("MUJOCO_GL", "").lower()
    found = [
        name for name, library in (("egl", "EGL"), ("osmesa", "OSMesa")) if ctypes.util.find_library(library)
    ]
    if wanted in ("egl", "osmesa"):
        return wanted
    if not found:
        raise ConfigError(NO_RENDERER)
    return found[0]


def _context(width: int, height: int) -> Any:
    name = choose_renderer()
    try:
        if name == "egl":
            from mujoco.egl import GLContext
        else:
            from mujoco.osmesa import GLContext
        return GLContext(width, height)
    except (ImportError, AttributeError, RuntimeError, OSError) as error:
        raise ConfigError(f"{NO_RENDERER} ({name}: {error})") from error


def _scenery(mujoco: Any, xml: str, width: int, height: int) -> Any:
    spec = mujoco.MjSpec.from_string(xml)
    spec.visual.global_.offwidth, spec.visual.global_.offheight = width, height
    spec.visual.headlight.ambient = [0.45, 0.45, 0.45]
    spec.visual.headlight.diffuse = [0.4, 0.4, 0.4]
    kinds, patterns = mujoco.mjtTexture, mujoco.mjtBuiltin
    spec.add_texture(
        name="sky", type=kinds.mjTEXTURE_SKYBOX, builtin=patterns.mjBUILTIN_GRADIENT, rgb1=[0.78, 0.86, 0.95],
        rgb2=[0.95, 0.97, 1.0], width=64, height=64,
    )  # fmt: skip
    spec.add_texture(
        name="tiles", type=kinds.mjTEXTURE_2D, builtin=patterns.mjBUILTIN_CHECKER, rgb1=[0.55, 0.6, 0.66],
        rgb2=[0.66, 0.71, 0.77], width=256, height=256,
    )  # fmt: skip
    material = spec.add_material(name="tiles", texrepeat=[1, 1], texuniform=True)
    material.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "tiles"
    spec.worldbody.add_light(pos=[0, -2, 4], dir=[0, 0.4, -1], castshadow=False)
    if not any(geom.type == mujoco.mjtGeom.mjGEOM_PLANE for geom in spec.geoms):
        # Only to be seen: where there is no floor, a camera that follows would show no motion.
        spec.worldbody.add_geom(
            type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], pos=[0, 0, -1.3], contype=0, conaffinity=0
        )
    for geom in spec.geoms:
        if geom.type == mujoco.mjtGeom.mjGEOM_PLANE:
            geom.material = "tiles"
        else:
            geom.rgba = [0.12, 0.44, 0.92, 1.0]
    return spec.compile()
