#!/bin/sh
# Makes the files of others in ../assets again: Apache ECharts with those of its parts that the report uses (echarts.js here
# says which), and the letters of DejaVu Sans that figures need. Run it after changing a version or echarts.js. Needs npm and python3.
set -eu
cd "$(dirname "$0")"
echarts=6.1.0 esbuild=0.28.2 dejavu=2.37.3 fonttools=4.60.1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp echarts.js "$work"
python3 -m venv "$work/python"
"$work/python/bin/pip" install --quiet --disable-pip-version-check "fonttools==$fonttools"
cd "$work"
echo '{ "private": true, "type": "module" }' >package.json
npm install --silent --save-exact "echarts@$echarts" "esbuild@$esbuild" "dejavu-fonts-ttf@$dejavu"
npx esbuild echarts.js --bundle --minify --format=iife --target=es2020 --legal-comments=none --outfile=bundle.js \
    --define:process.env.NODE_ENV='"production"'
python/bin/pyftsubset node_modules/dejavu-fonts-ttf/ttf/DejaVuSans.ttf --output-file=font.ttf \
    --unicodes=U+0020-007E,U+00A0-00FF,U+2013,U+2014,U+2018-201D,U+2022,U+2026,U+2212 --layout-features=kern --no-hinting
cd "$OLDPWD"
{
    echo "/* Apache ECharts $echarts, Apache License 2.0 (echarts-LICENSE), made by vendor/update.sh */"
    cat "$work/bundle.js"
} >../assets/echarts.min.js
cp "$work/node_modules/echarts/LICENSE" ../assets/echarts-LICENSE
cp "$work/font.ttf" ../assets/dejavu-sans.ttf
cp "$work/node_modules/dejavu-fonts-ttf/LICENSE" ../assets/dejavu-LICENSE
ls -l ../assets
