import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import ucar.ma2.Array;
import ucar.ma2.ArrayStructure;
import ucar.ma2.DataType;
import ucar.ma2.IndexIterator;
import ucar.ma2.StructureMembers;
import ucar.nc2.Attribute;
import ucar.nc2.Group;
import ucar.nc2.NetcdfFile;
import ucar.nc2.Variable;
import ucar.nc2.dataset.NetcdfDatasets;
import ucar.nc2.stream.NcStreamCompression;
import ucar.nc2.stream.NcStreamWriter;

/**
 * Reads a dataset with netcdf-java, or writes it as a stream as netcdf-java does.
 *
 * <pre>
 * read LOCATION [SECTION...]  prints attributes and values, those of the sections if there are any
 * stream LOCATION FILE        writes a file, whose values are in DATA messages
 * columns LOCATION FILE       writes the answers of a server of version 5: a header, DATA2 messages
 * </pre>
 *
 * A line has a name, a type, a shape, and the values in hexadecimal digits, separated by tabs. Numbers are big-endian;
 * elements of any length are separated by commas.
 */
public class NetcdfJava {
  public static void main(String[] words) throws Exception {
    if (words[0].equals("read")) {
      try (NetcdfFile file = open(words[1])) {
        if (words.length == 2) {
          printAll(file);
        }
        for (String section : Arrays.asList(words).subList(2, words.length)) {
          print(section, file.readSection(section));
        }
      }
    } else {
      try (NetcdfFile file = open(words[1]);
          OutputStream out = new BufferedOutputStream(Files.newOutputStream(Path.of(words[2])))) {
        NcStreamWriter writer = new NcStreamWriter(file, null);
        if (words[0].equals("stream")) {
          writer.streamAll(out);
        } else {
          writer.sendHeader(out);
          for (Variable variable : file.getVariables()) {
            writer.sendData2(variable, variable.getShapeAsSection(), out, NcStreamCompression.none());
          }
        }
      }
    }
  }

  private static NetcdfFile open(String location) throws IOException {
    return NetcdfDatasets.openFile(location, null);
  }

  private static void printAll(NetcdfFile file) throws IOException {
    printAttributes(file.getRootGroup());
    for (Variable variable : file.getVariables()) {
      for (Attribute attribute : variable.attributes()) {
        print(variable.getFullName() + "@" + attribute.getShortName(), attribute.getValues());
      }
      try {
        print(variable.getFullName(), variable.read());
      } catch (IOException | RuntimeException error) {
        System.out.println(variable.getFullName() + "\terror\t\t" + String.valueOf(error.getMessage()).split("\n")[0]);
      }
    }
  }

  private static void printAttributes(Group group) throws IOException {
    for (Attribute attribute : group.attributes()) {
      print(group.getFullName() + "@" + attribute.getShortName(), attribute.getValues());
    }
    for (Group child : group.getGroups()) {
      printAttributes(child);
    }
  }

  private static void print(String name, Array values) throws IOException {
    if (values instanceof ArrayStructure) {
      ArrayStructure structures = (ArrayStructure) values;
      for (StructureMembers.Member member : structures.getMembers()) {
        print(name + "." + member.getName(), structures.extractMemberArray(member));
      }
      return;
    }
    StringBuilder shape = new StringBuilder();
    if (values != null) {
      for (int length : values.getShape()) {
        shape.append(shape.length() == 0 ? "" : ",").append(length);
      }
    }
    String type = values == null ? "" : values.getDataType().toString();
    System.out.println(name + "\t" + type + "\t" + shape + "\t" + (values == null ? "" : digits(values)));
  }

  private static String digits(Array values) {
    DataType type = values.getDataType();
    IndexIterator each = values.getIndexIterator();
    if ((type.isNumeric() || type == DataType.CHAR) && !values.isVlen()) {
      ByteBuffer found = ByteBuffer.allocate((int) values.getSize() * type.getSize());
      while (each.hasNext()) {
        switch (type.getPrimitiveClassType().getName()) {
          case "byte" -> found.put(each.getByteNext());
          case "char" -> found.put((byte) each.getCharNext());
          case "short" -> found.putShort(each.getShortNext());
          case "int" -> found.putInt(each.getIntNext());
          case "long" -> found.putLong(each.getLongNext());
          case "float" -> found.putFloat(each.getFloatNext());
          default -> found.putDouble(each.getDoubleNext());
        }
      }
      return digits(found.flip());
    }
    List<String> found = new ArrayList<>();
    while (each.hasNext()) {
      Object element = each.getObjectNext();
      if (element instanceof Array) {
        found.add(digits((Array) element));
      } else if (element instanceof ByteBuffer) {
        found.add(digits(((ByteBuffer) element).duplicate().rewind()));
      } else {
        found.add(digits(ByteBuffer.wrap(String.valueOf(element).getBytes(StandardCharsets.UTF_8))));
      }
    }
    return String.join(",", found);
  }

  private static String digits(ByteBuffer bytes) {
    byte[] found = new byte[bytes.remaining()];
    bytes.get(found);
    return HexFormat.of().formatHex(found);
  }
}
